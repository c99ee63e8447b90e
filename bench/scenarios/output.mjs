// A flood of JSON lines: how fast lines are told apart, and what of it is paid on the main thread.
import { spawn as nodeSpawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { meter } from '../meter.mjs'
import { table } from '../verdict.mjs'

const LINE_BYTES = 200
const WANTED_EVERY = 50

export function plan({ quick }) {
  const bytes = quick ? 200e6 : 1e9
  const all = [
    'readline',
    'result',
    'json',
    'batches',
    'lines',
    'split',
    'readline+parse',
    'tinyexec',
    'execa',
  ]
  return {
    rounds: 5,
    bytes,
    // The slow ones get less to do: speeds are rates.
    contenders: all.map((name) => ({
      name,
      bytes: ['execa', 'tinyexec', 'readline+parse'].includes(name) ? bytes / 5 : bytes,
    })),
  }
}

export const title = ({ bytes }) =>
  `${bytes / 1e6} MB of ${LINE_BYTES} B JSON lines, 1 in ${WANTED_EVERY} of the wanted type`

const sheepdog = async () => (await import('../../index.js')).default

const ours = ['result', 'json', 'batches', 'lines']

/** Only what the contender itself needs: a package more is memory more. */
async function preload(name) {
  if (ours.includes(name)) await sheepdog()
  else if (name === 'execa' || name === 'tinyexec') await import(name)
}

const raw = {
  async readline(command, args) {
    const child = nodeSpawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    let count = 0
    createInterface({ input: child.stdout, crlfDelay: Infinity }).on('line', () => count++)
    await new Promise((resolve) => child.on('close', resolve))
    return count
  },
  async 'readline+parse'(command, args) {
    const child = nodeSpawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    let wanted = 0
    createInterface({ input: child.stdout, crlfDelay: Infinity }).on('line', (line) => {
      if (JSON.parse(line).type === 'result') wanted++
    })
    await new Promise((resolve) => child.on('close', resolve))
    return wanted * WANTED_EVERY
  },
  async split(command, args) {
    const child = nodeSpawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] })
    let count = 0
    let rest = ''
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop()
      for (const line of lines) if (line.length > 0) count++
    })
    await new Promise((resolve) => child.on('close', resolve))
    return count
  },
  async execa(command, args) {
    const { execa } = await import('execa')
    let count = 0
    for await (const _ of execa(command, args, { buffer: false, stdin: 'ignore' })) count++
    return count
  },
  async tinyexec(command, args) {
    const { x } = await import('tinyexec')
    let count = 0
    for await (const _ of x(command, args)) count++
    return count
  },
  async result(command, args) {
    const { run } = await sheepdog()
    const { stdout, stdoutBytes } = await run(command, args)
    if (!stdout.startsWith('{"type":"head"') || !stdout.includes('\n{"type":"tail"'))
      throw new Error('head or tail lost')
    return stdoutBytes / LINE_BYTES
  },
  async json(command, args) {
    const { spawn } = await sheepdog()
    let wanted = 0
    for await (const event of spawn(command, args).json({ types: ['result'] }))
      if (event.type === 'result') wanted++
    return wanted * WANTED_EVERY
  },
  async batches(command, args) {
    const { spawn } = await sheepdog()
    let count = 0
    for await (const { lines } of spawn(command, args).lineBatches()) {
      for (const line of lines) if (line.length > 0) count++
    }
    return count
  },
  async lines(command, args) {
    const { spawn } = await sheepdog()
    let count = 0
    for await (const { text } of spawn(command, args).lines()) if (text.length > 0) count++
    return count
  },
}

export const contenders = Object.fromEntries(
  Object.entries(raw).map(([name, work]) => [
    name,
    async ({ program, bytes }) => {
      // What loading costs is not what is measured.
      await preload(name)
      const { cost, value } = await meter(() =>
        work(program, ['lines', bytes, LINE_BYTES, WANTED_EVERY].map(String)),
      )
      const expected = bytes / LINE_BYTES
      if (Math.abs(value - expected) > WANTED_EVERY)
        throw new Error(`${name}: ${value} lines instead of ${expected}`)
      return {
        ...cost,
        linesPerMs: expected / cost.ms,
        mainPerLine: cost.mainMs / expected,
        totalPerLine: cost.totalMs / expected,
      }
    },
  ]),
)

export function print(medians) {
  const base = medians.readline
  table(
    Object.entries(medians).map(([name, cost]) => ({
      contender: ours.includes(name) ? `sheepdog ${name}` : name,
      'M lines/s': cost.linesPerMs / 1e3,
      'x readline': cost.linesPerMs / base.linesPerMs,
      'main CPU x': cost.mainPerLine / base.mainPerLine,
      'all CPU x': cost.totalPerLine / base.totalPerLine,
      'loop delay p99 ms': cost.delayMs,
      'peak RSS MB': cost.rssMb,
    })),
  )
}

export function figures({ readline, result, json, batches, lines }) {
  const speed = (one) => one.linesPerMs / readline.linesPerMs
  const main = (one) => (100 * one.mainPerLine) / readline.mainPerLine
  return [
    ['result: speed against readline', speed(result), '>=', 8, 'x'],
    ["result: main thread, of readline's", main(result), '<=', 5, ' %'],
    ['result: peak RSS', result.rssMb, '<=', 100, ' MB'],
    ['json({types}): speed against readline', speed(json), '>=', 3.5, 'x'],
    ['lineBatches(): speed against readline', speed(batches), '>=', 3, 'x'],
    ["lineBatches(): main thread, of readline's", main(batches), '<=', 50, ' %'],
    ['lines(): speed against readline', speed(lines), '>=', 1, 'x'],
  ]
}
