// The accuracy of the idle watchdog: 1,000 programs fall silent within half a second; how late do they die? A process of its
// own sees them die, and the programs themselves say when they printed last, by the same clock.
import { execFile, spawn as nodeSpawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { peakRss } from '../meter.mjs'
import { percentile } from '../round.mjs'
import { table } from '../verdict.mjs'

const IDLE_MS = 4000
/** Until the first of them prints its last line: time to start them all. */
const START_MS = 3500
const STAGGER_MS = 450
const BLOCK_MS = 5000

export function plan({ quick }) {
  const count = quick ? 300 : 1000
  const names = ['bare sleep', 'sheepdog', 'sheepdog blocked', 'by hand', 'by hand blocked']
  return { rounds: quick ? 1 : 3, count, contenders: names.map((name) => ({ name, count })) }
}

export const title = ({ count }) =>
  `${count} watched programs fall silent within ${STAGGER_MS} ms; from the deadline to the death (blocked: the JavaScript thread is busy for ${BLOCK_MS / 1e3} s meanwhile)`

/** Each starts one program and gives `{ pid, ended: Promise<its output> }`. */
const watch = {
  async sheepdog(program, args) {
    const { spawn } = (await import('../../index.js')).default
    const child = spawn(program, args, { idleTimeoutMs: IDLE_MS })
    const { pid } = await child.started
    const ended = child.result.then(
      () => Promise.reject(new Error('a program outlived its deadline')),
      (error) => {
        if (error.code !== 'PROCESS_IDLE') throw error
        return error.result.stdout
      },
    )
    return { pid, ended }
  },
  async 'by hand'(program, args) {
    const child = nodeSpawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    let output = ''
    const timer = setTimeout(() => child.kill('SIGKILL'), IDLE_MS)
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      output += chunk
      timer.refresh()
    })
    return { pid: child.pid, ended: once(child, 'close').then(() => output) }
  },
}

async function lateness(name, { program, count }, blocked) {
  const begin = process.hrtime.bigint()
  const started = await Promise.all(
    Array.from({ length: count }, (_, index) => {
      const at = begin + BigInt(Math.round((START_MS + (index * STAGGER_MS) / count) * 1e6))
      return watch[name](program, ['quiet', String(at)])
    }),
  )
  const deaths = observe(
    program,
    started.map(({ pid }) => pid),
  )
  if (blocked) {
    const until = begin + BigInt((START_MS + STAGGER_MS + 300) * 1e6)
    while (process.hrtime.bigint() < until) await new Promise((resolve) => setTimeout(resolve, 10))
    const end = performance.now() + BLOCK_MS
    while (performance.now() < end);
  }
  const outputs = await Promise.all(started.map(({ ended }) => ended))
  const died = await deaths
  const late = outputs.map((output, index) => {
    const last = BigInt(output.trimEnd().split('\n').at(-1))
    return Number(died.get(started[index].pid) - last) / 1e6 - IDLE_MS
  })
  return {
    early: late.filter((ms) => ms < 0).length,
    p50: percentile(late, 0.5),
    p99: percentile(late, 0.99),
    worst: Math.max(...late),
    rssMb: peakRss(),
  }
}

/** When each of these pids died, by the monotonic clock. */
async function observe(program, pids) {
  const observer = nodeSpawn(program, ['observe'], { stdio: ['pipe', 'pipe', 'inherit'] })
  observer.stdin.end(pids.map((pid) => `${pid}\n`).join(''))
  const died = new Map()
  for await (const line of createInterface({ input: observer.stdout })) {
    const [pid, at] = line.split(' ')
    died.set(Number(pid), BigInt(at))
  }
  return died
}

/** What the machine gives just now to a program that does nothing but wait: no watchdog can be better. */
async function bareSleep({ program }) {
  const { stdout } = await promisify(execFile)(program, ['timers', '4'])
  const [p50, p99] = stdout
    .trim()
    .split(' ')
    .map((nanoseconds) => Number(nanoseconds) / 1e6)
  return { early: 0, p50, p99, worst: p99, rssMb: 0 }
}

export const contenders = {
  'bare sleep': bareSleep,
  ...Object.fromEntries(
    Object.keys(watch).flatMap((name) => [
      [name, (parameters) => lateness(name, parameters, false)],
      [`${name} blocked`, (parameters) => lateness(name, parameters, true)],
    ]),
  ),
}

export function print(medians) {
  table(
    Object.entries(medians).map(([name, { early, p50, p99, worst, rssMb }]) => ({
      contender: name,
      'late p50 ms': p50,
      'p99 ms': p99,
      'worst ms': worst,
      'too early': early,
      'peak RSS MB': rssMb || undefined,
    })),
  )
}

export function figures(medians) {
  return ['sheepdog', 'sheepdog blocked'].flatMap((name) => [
    [`${name}: lateness p99`, medians[name].p99, '<=', 10, ' ms'],
    [`${name}: killed too early`, medians[name].early, '<=', 0, ''],
  ])
}
