// Far more output than anyone wants to keep: what it costs in memory, and whether head and tail are right.
import { spawn as nodeSpawn } from 'node:child_process'
import { meter } from '../meter.mjs'
import { table } from '../verdict.mjs'

const LINE_BYTES = 200
const KEPT_BYTES = 16 << 20

export function plan({ quick }) {
  const bytes = quick ? 2e9 : 10e9
  return {
    rounds: 1,
    bytes,
    contenders: [
      { name: 'sheepdog', bytes },
      // It keeps everything: more than half a gigabyte would be its end.
      { name: 'gathered by hand', bytes: 400e6 },
    ],
  }
}

export const title = ({ bytes }) =>
  `${bytes / 1e9} GB of output, only the result wanted (by hand: 0.4 GB, all it can hold)`

export const contenders = {
  async sheepdog({ program, bytes }) {
    const { run } = (await import('../../index.js')).default
    const args = ['lines', bytes, LINE_BYTES, 50].map(String)
    const { cost, value } = await meter(() => run(program, args))
    const gap = /\n\[\.\.\. (\d+) bytes left out \.\.\.\]\n/.exec(value.stdout)
    const kept = value.stdout.length - gap[0].length + 1
    const lines = value.stdout.trimEnd().split('\n')
    const whole = lines.filter((line) => line.length === LINE_BYTES - 1 && line.endsWith('}}')).length
    const right =
      value.stdoutBytes === bytes &&
      value.truncated &&
      kept + Number(gap[1]) === bytes &&
      kept <= KEPT_BYTES &&
      kept > KEPT_BYTES - 2 * LINE_BYTES &&
      whole === lines.length - 1 &&
      lines[0].startsWith('{"type":"head"') &&
      lines.at(-1).startsWith('{"type":"tail"')
    return { ...cost, megabytesPerSecond: bytes / 1e3 / cost.ms, right: Number(right) }
  },
  async 'gathered by hand'({ program, bytes }) {
    const { cost } = await meter(async () => {
      const child = nodeSpawn(program, ['lines', bytes, LINE_BYTES, 50].map(String))
      let output = ''
      child.stdout.setEncoding('utf8').on('data', (chunk) => (output += chunk))
      await new Promise((resolve) => child.on('close', resolve))
      return output.length
    })
    return { ...cost, megabytesPerSecond: bytes / 1e3 / cost.ms, right: 1 }
  },
}

export function print(medians) {
  table(
    Object.entries(medians).map(([name, cost]) => ({
      contender: name,
      'MB/s': cost.megabytesPerSecond,
      'main CPU ms': cost.mainMs,
      'all CPU ms': cost.totalMs,
      'peak RSS MB': cost.rssMb,
      'head and tail right': cost.right === 1 ? 'yes' : 'NO',
    })),
  )
}

export function figures({ sheepdog }) {
  return [
    ['peak RSS', sheepdog.rssMb, '<=', 100, ' MB'],
    ['head and tail right, every byte counted', sheepdog.right, '>=', 1, ''],
  ]
}
