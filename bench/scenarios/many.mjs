// What agents really do: many of them at once, each printing events at a human pace. What a host pays to read them all.
import { spawn as nodeSpawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { meter } from '../meter.mjs'
import { table } from '../verdict.mjs'

const LINES_A_SECOND = 100
const LINE_BYTES = 280

export function plan({ quick }) {
  const [runs, seconds] = [100, quick ? 2 : 5]
  const names = ['readline', 'split', 'json', 'batches', 'result']
  return { rounds: 3, runs, seconds, contenders: names.map((name) => ({ name, runs, seconds })) }
}

export const title = ({ runs }) =>
  `${runs} runs at once, each ${LINES_A_SECOND} lines/s of ${LINE_BYTES} B, every line parsed (result: none)`

const readers = {
  async readline(program, args) {
    const child = nodeSpawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    let count = 0
    createInterface({ input: child.stdout, crlfDelay: Infinity }).on('line', (line) => {
      if (JSON.parse(line).type === 'delta') count++
    })
    await new Promise((resolve) => child.on('close', resolve))
    return count
  },
  async split(program, args) {
    const child = nodeSpawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    let count = 0
    let rest = ''
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop()
      for (const line of lines) if (JSON.parse(line).type === 'delta') count++
    })
    await new Promise((resolve) => child.on('close', resolve))
    return count
  },
  async json(program, args, { spawn }) {
    let count = 0
    for await (const event of spawn(program, args).json()) if (event.type === 'delta') count++
    return count
  },
  async batches(program, args, { spawn }) {
    let count = 0
    for await (const { lines } of spawn(program, args).lineBatches()) {
      for (const line of lines) if (JSON.parse(line).type === 'delta') count++
    }
    return count
  },
  async result(program, args, { run }) {
    return (await run(program, args)).stdoutBytes / LINE_BYTES
  },
}

export const contenders = Object.fromEntries(
  Object.entries(readers).map(([name, read]) => [
    name,
    async ({ program, runs, seconds }) => {
      const sheepdog = (await import('../../index.js')).default
      const args = ['paced', LINES_A_SECOND, seconds, LINE_BYTES].map(String)
      const { cost, value } = await meter(() =>
        Promise.all(Array.from({ length: runs }, () => read(program, args, sheepdog))),
      )
      const count = value.reduce((sum, one) => sum + one, 0)
      const expected = runs * seconds * LINES_A_SECOND
      if (count !== expected) throw new Error(`${name}: ${count} lines instead of ${expected}`)
      return cost
    },
  ]),
)

export function print(medians) {
  const base = medians.readline
  table(
    Object.entries(medians).map(([name, cost]) => ({
      contender: ['readline', 'split'].includes(name) ? name : `sheepdog ${name}`,
      'main CPU %': (100 * cost.mainMs) / cost.ms,
      'x readline': cost.mainMs / base.mainMs,
      'all CPU %': (100 * cost.totalMs) / cost.ms,
      'all x readline': cost.totalMs / base.totalMs,
      'loop delay p99 ms': cost.delayMs,
      'peak RSS MB': cost.rssMb,
    })),
  )
}

/** Of the result alone nothing was promised beyond being better than what is at hand. */
export function figures({ readline, json, result }) {
  return [
    ["json(): main thread against readline's", json.mainMs / readline.mainMs, '<=', 0.3, 'x'],
    ["result: main thread against readline's", result.mainMs / readline.mainMs, '<=', 1, 'x'],
  ]
}
