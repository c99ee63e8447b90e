// The Copilot client beside @github/copilot-sdk, against the same scripted runtime; start() also of the real one.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { meter } from '../meter.mjs'
import { median, percentile } from '../round.mjs'
import { table } from '../verdict.mjs'

const peer = fileURLToPath(new URL('../../fixtures/copilot/peer.mjs', import.meta.url))
const STARTS = 5

const load = async (name) =>
  name === 'sheepdog' ? (await import('../../entries/copilot.js')).default : import('@github/copilot-sdk')

export function plan({ quick }) {
  const few = quick ? 0.2 : 1
  const works = {
    'events of 290 B': { work: 'events', count: 200_000 * few, size: 290 },
    'events of 20 KB': { work: 'events', count: 10_000 * few, size: 20_000 },
    'a flood': { work: 'events', count: 1_000_000 * few, size: 290 },
    ping: { work: 'ping', count: 3000 * few },
    start: { work: 'start', count: STARTS },
  }
  const contenders = Object.entries(works).flatMap(([title, work]) =>
    ['sheepdog', 'SDK'].map((name) => ({ name: `${name} @${title}`, ...work })),
  )
  return { rounds: quick ? 1 : 3, few, contenders }
}

export const title = ({ few }) =>
  `events to one handler, a flood of ${few} million, pings, starts of the real runtime`

async function withClient(name, args, use) {
  const { CopilotClient, RuntimeConnection, approveAll } = await load(name)
  const home = mkdtempSync(join(tmpdir(), 'sheepdog-bench-'))
  const connection = RuntimeConnection.forStdio({ path: peer, args: [...args, '--'] })
  const client = new CopilotClient({ connection, baseDirectory: home })
  await client.start()
  try {
    return await use(client, await client.createSession({ onPermissionRequest: approveAll }))
  } finally {
    await client.stop()
    rmSync(home, { recursive: true, force: true })
  }
}

const works = {
  events: (name, { count, size }) =>
    withClient(
      name,
      ['--play', 'flood-fast', '--count', `${count}`, '--size', `${size}`],
      async (_, session) => {
        let events = 0
        session.on('assistant.message_delta', () => void events++)
        const ended = new Promise((resolve) => void session.on('session.idle', resolve))
        const { cost } = await meter(async () => {
          await session.send({ prompt: 'go' })
          await ended
        })
        if (events !== count) throw new Error(`${events} events of ${count}`)
        return { rate: (count / cost.ms) * 1000, cpuMicros: (cost.totalMs * 1000) / count, ...cost }
      },
    ),

  ping: (name, { count }) =>
    withClient(name, [], async (client) => {
      for (let index = 0; index < 200; index++) await client.ping('x')
      const times = []
      for (let index = 0; index < count; index++) {
        const began = performance.now()
        await client.ping('x')
        times.push((performance.now() - began) * 1000)
      }
      return { p50Micros: percentile(times, 0.5), p99Micros: percentile(times, 0.99) }
    }),

  async start(name, { count }) {
    const { CopilotClient } = await load(name)
    const home = mkdtempSync(join(tmpdir(), 'sheepdog-bench-'))
    const times = []
    for (let index = 0; index < count; index++) {
      const client = new CopilotClient({
        baseDirectory: home,
        useLoggedInUser: false,
        env: { ...process.env, HOME: home },
      })
      const began = performance.now()
      await client.start()
      times.push(performance.now() - began)
      await client.stop()
    }
    rmSync(home, { recursive: true, force: true })
    return { startMs: median(times) }
  },
}

const contend = (name) => (parameters) => works[parameters.work](name, parameters)
export const contenders = { sheepdog: contend('sheepdog'), SDK: contend('SDK') }

export function print(medians) {
  table(
    Object.entries(medians).map(([name, cost]) => ({
      contender: name,
      'events/s': cost.rate && Math.round(cost.rate),
      'CPU us/event': cost.cpuMicros,
      'peak RSS MB': cost.rate && cost.rssMb,
      'loop delay p99 ms': cost.delayMs,
      'ping p50 us': cost.p50Micros,
      'start ms': cost.startMs,
    })),
  )
}

export function figures(medians) {
  const pair = (title) => [medians[`sheepdog @${title}`], medians[`SDK @${title}`]]
  const [[small, smallSdk], [large, largeSdk], [flood]] = [
    'events of 290 B',
    'events of 20 KB',
    'a flood',
  ].map(pair)
  const [[ping, pingSdk], [start, startSdk]] = ['ping', 'start'].map(pair)
  return [
    ['events of 290 B: speed against the SDK', small.rate / smallSdk.rate, '>=', 3, 'x'],
    ['events of 290 B: CPU for each', small.cpuMicros / smallSdk.cpuMicros, '<=', 0.25, 'x'],
    ['events of 20 KB: speed against the SDK', large.rate / largeSdk.rate, '>=', 2, 'x'],
    ['a flood: peak RSS', flood.rssMb, '<=', 120, ' MB'],
    ['a flood: loop delay p99', flood.delayMs, '<=', 20, ' ms'],
    ['ping p50 against the SDK', ping.p50Micros / pingSdk.p50Micros, '<=', 1.5, 'x'],
    ['start of the real runtime, more than the SDK', start.startMs - startSdk.startMs, '<=', 20, ' ms'],
  ]
}
