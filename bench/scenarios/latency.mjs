// How soon after it was printed a line is in JavaScript, at the pace of one program after another: from a word now and then to a
// thousand lines a second.
import { spawn as nodeSpawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { median, percentile } from '../round.mjs'
import { table } from '../verdict.mjs'

const rates = [1, 10, 100, 1000]
const names = ['readline', 'lines', 'json']

export function plan({ quick }) {
  const contenders = rates.flatMap((rate) =>
    names.map((name) => ({ name: `${name} @${rate}`, rate, seconds: rate === 1 ? 5 : quick ? 1 : 3 })),
  )
  return { rounds: 3, contenders }
}

export const title = () =>
  'from the write of a line to its reader in JavaScript, one program at so many lines a second'

const readers = {
  async readline(program, args, onLine) {
    const child = nodeSpawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    createInterface({ input: child.stdout, crlfDelay: Infinity }).on('line', (line) =>
      onLine(JSON.parse(line)),
    )
    await new Promise((resolve) => child.on('close', resolve))
  },
  async lines(program, args, onLine, { spawn }) {
    for await (const { text } of spawn(program, args)) onLine(JSON.parse(text))
  },
  async json(program, args, onLine, { spawn }) {
    for await (const event of spawn(program, args).json({ types: ['stamp'] })) onLine(event)
  },
}

export const contenders = Object.fromEntries(
  Object.entries(readers).map(([name, read]) => [
    name,
    async ({ program, rate, seconds }) => {
      const sheepdog = (await import('../../index.js')).default
      const late = []
      const onLine = ({ at }) => late.push(Number(process.hrtime.bigint() - BigInt(at)) / 1e6)
      await read(program, ['stamped', rate, seconds].map(String), onLine, sheepdog)
      if (late.length !== rate * seconds) throw new Error(`${name}: ${late.length} lines`)
      return { medianMs: median(late), p99Ms: percentile(late, 0.99) }
    },
  ]),
)

export function print(medians) {
  table(
    rates.map((rate) => ({
      'lines/s': rate,
      ...Object.fromEntries(
        names.flatMap((name) => {
          const { medianMs, p99Ms } = medians[`${name} @${rate}`]
          return [
            [`${name} ms`, medianMs],
            [`${name} p99`, p99Ms],
          ]
        }),
      ),
    })),
  )
}

export function figures(medians) {
  return rates.flatMap((rate) =>
    ['lines', 'json'].map((name) => [
      `${name} at ${rate} lines/s: median behind readline's`,
      medians[`${name} @${rate}`].medianMs - medians[`readline @${rate}`].medianMs,
      '<=',
      0.3,
      ' ms',
    ]),
  )
}
