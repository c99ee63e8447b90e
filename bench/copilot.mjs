// The Copilot client beside @github/copilot-sdk, against the same scripted runtime, in one run. Each figure is taken in a
// process of its own, ours and theirs in turn; the best of the rounds counts.
//
//   node bench/copilot.mjs [--rounds 3] [--quick]
import { spawnSync } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const file = fileURLToPath(import.meta.url)
const root = dirname(dirname(file))
const peer = join(root, 'fixtures', 'copilot', 'peer.mjs')

const load = (name) => (name === 'ours' ? createRequire(file)('../index.js') : import('@github/copilot-sdk'))

async function open(name, args) {
  const { CopilotClient, RuntimeConnection, approveAll } = await load(name)
  const home = mkdtempSync(join(tmpdir(), 'sheepdog-bench-'))
  const client = new CopilotClient({
    connection: RuntimeConnection.forStdio({ path: peer, args: [...args, '--'] }),
    baseDirectory: home,
  })
  await client.start()
  return { client, session: await client.createSession({ onPermissionRequest: approveAll }) }
}

const measures = {
  /** Events to one handler: rate, CPU of this process per event, memory, delay of the loop. */
  async events(name, count, size) {
    const { client, session } = await open(name, [
      '--play',
      'flood-fast',
      '--count',
      `${count}`,
      '--size',
      `${size}`,
    ])
    let events = 0
    session.on('assistant.message_delta', () => void events++)
    const delay = monitorEventLoopDelay({ resolution: 1 })
    let peak = 0
    const timer = setInterval(() => (peak = Math.max(peak, process.memoryUsage.rss())), 20)
    const cpu = process.cpuUsage()
    const began = performance.now()
    delay.enable()
    const ended = new Promise((resolve) => session.on('session.idle', resolve))
    await session.send({ prompt: 'go' })
    await ended
    const seconds = (performance.now() - began) / 1000
    delay.disable()
    const { user, system } = process.cpuUsage(cpu)
    clearInterval(timer)
    peak = Math.max(peak, process.memoryUsage.rss())
    await client.stop()
    if (events !== count) throw new Error(`${events} events of ${count}`)
    return {
      rate: count / seconds,
      cpuMicros: (user + system) / count,
      peakRssMb: peak / 1e6,
      loopP99Ms: delay.percentile(99) / 1e6,
    }
  },

  async ping(name, count) {
    const { client } = await open(name, [])
    for (let i = 0; i < 200; i++) await client.ping('x')
    const times = []
    for (let i = 0; i < count; i++) {
      const began = performance.now()
      await client.ping('x')
      times.push(performance.now() - began)
    }
    await client.stop()
    times.sort((left, right) => left - right)
    return { p50Micros: times[count >> 1] * 1000, p99Micros: times[Math.floor(count * 0.99)] * 1000 }
  },

  /** start() of the real runtime. */
  async start(name) {
    const { CopilotClient } = await load(name)
    const home = mkdtempSync(join(tmpdir(), 'sheepdog-bench-'))
    const times = []
    for (let i = 0; i < 5; i++) {
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
    return { startMs: Math.min(...times) }
  },
}

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '3' },
    quick: { type: 'boolean' },
    child: { type: 'string' },
  },
})

if (values.child) {
  const [name, measure, ...args] = JSON.parse(values.child)
  console.log(JSON.stringify(await measures[measure](name, ...args)))
  process.exit(0)
}

function measure(name, ...what) {
  const child = spawnSync(process.execPath, [file, '--child', JSON.stringify([name, ...what])], {
    encoding: 'utf8',
  })
  if (child.status !== 0) throw new Error(`${name} ${what}: ${child.stderr}`)
  return JSON.parse(child.stdout.trim().split('\n').at(-1))
}

/** The better of two figures: of rates the higher, of all else the lower. */
const better = (key, left, right) => (key === 'rate' ? Math.max(left, right) : Math.min(left, right))

function compare(title, ...what) {
  const best = { ours: {}, theirs: {} }
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const name of ['ours', 'theirs']) {
      for (const [key, value] of Object.entries(measure(name, ...what))) {
        best[name][key] = key in best[name] ? better(key, best[name][key], value) : value
      }
    }
  }
  console.log(title)
  for (const key of Object.keys(best.ours)) {
    const [ours, theirs] = [best.ours[key], best.theirs[key]]
    const show = (value) => (value >= 1000 ? Math.round(value).toLocaleString('en') : value.toFixed(1))
    console.log(
      `  ${key.padEnd(11)} ours ${show(ours).padStart(10)}   SDK ${show(theirs).padStart(10)}   x${(ours / theirs).toFixed(2)}`,
    )
  }
}

const few = values.quick ? 0.2 : 1
compare('events of 290 bytes to one handler', 'events', 200_000 * few, 290)
compare('events of 20 KB to one handler', 'events', 10_000 * few, 20_000)
compare('flood of 1,000,000 events', 'events', 1_000_000 * few, 290)
compare('ping', 'ping', 3000 * few)
compare('start() of the real runtime', 'start')
