// `npm run test:fleet-chaos [-- --jobs N --seed N]`: jobs, while workers and the server are killed at random. None may be lost, none
// done twice, every log has to be whole. Ends by itself.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { findServer } from './nats-server.mjs'
import { fail, prepare, root } from './setup.mjs'

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '500' },
    seed: { type: 'string', default: `${Date.now() % 1e6}` },
    workers: { type: 'string', default: '4' },
    events: { type: 'string', default: '12' },
    built: { type: 'boolean', default: false },
  },
})
const [jobs, seed, workers, events] = [values.jobs, values.seed, values.workers, values.events].map(Number)
const maxMs = 60_000 + jobs * 60

if (!values.built) prepare({ addon: 'any' })
const { server, problem } = findServer()
if (!server) fail(problem)
process.env.SHEEPDOG_NATS_SERVER = server
const { Fleet } = createRequire(import.meta.url)(join(root, 'index.js'))

/** mulberry32: the same seed, the same blows. */
let state = seed
function random() {
  state = (state + 0x6d2b79f5) | 0
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
}
const between = (least, most) => least + random() * (most - least)
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

const dir = mkdtempSync(join(tmpdir(), 'fleet-chaos-'))
const fleet = await Fleet.connect({ dir, leaseMs: 2000 })
const counts = { workers: 0, servers: 0 }
let isOver = false

async function keepWorker() {
  while (!isOver) {
    const args = [
      join(root, 'fixtures/fleet/worker.mjs'),
      JSON.stringify({ dir }),
      JSON.stringify({ concurrency: 12 }),
    ]
    const worker = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'ignore'] })
    const ended = once(worker, 'exit')
    await Promise.race([once(worker.stdout, 'data'), ended])
    await Promise.race([wait(between(600, 5000)), ended])
    // The last ones are drained, as in life.
    worker.kill(isOver ? 'SIGTERM' : 'SIGKILL')
    if (!isOver) counts.workers++
    await ended
  }
}

async function strikeServer() {
  while (!isOver) {
    await wait(between(3000, 7000))
    if (isOver) return
    try {
      process.kill(JSON.parse(readFileSync(join(dir, 'fleet.json'), 'utf8')).pid, 'SIGKILL')
      counts.servers++
    } catch {
      // It is being started.
    }
  }
}

const begun = performance.now()
const running = [strikeServer(), ...Array.from({ length: workers }, keepWorker)]
const ids = []
for (let n = 0; n < jobs; n++) {
  // An attempt is lost with its worker now and then: enough of them, so that none is dead by chance.
  const options = { handler: 'chatter', id: `job-${n}`, attempts: 1000, data: { events, ms: 40 } }
  const [job] = await Promise.all([fleet.submit(options), n % 3 === 0 ? fleet.submit(options) : undefined])
  ids.push(job.id)
}
const submittedMs = performance.now() - begun
const faults = { lost: 0, twice: 0, torn: 0, failed: 0 }
let attempts = 0
for (const id of ids) {
  const job = await fleet.job(id)
  const ended = await Promise.race([
    job.result.then(
      () => 'done',
      () => 'failed',
    ),
    wait(Math.max(1, maxMs - (performance.now() - begun))).then(() => 'lost'),
  ])
  if (ended !== 'done') {
    faults[ended]++
    continue
  }
}
const endedMs = performance.now() - begun
isOver = true
await Promise.all(running)
for (const id of ids) {
  const job = await fleet.job(id)
  const record = await job.record()
  if (record.state !== 'done') continue
  attempts += record.attempt
  // The attempt that counts says its own number; were two of them done, the record would have changed once more.
  if (record.result !== record.attempt) faults.twice++
  const said = []
  for await (const event of job.events()) if (event.attempt === record.attempt) said.push(event.n)
  if (said.length !== events || said.some((n, at) => n !== at)) faults.torn++
}
const { queues } = await fleet.status()
await fleet.close()
rmSync(dir, { recursive: true, force: true })
console.log(
  JSON.stringify({
    seed,
    jobs,
    seconds: Math.round(endedMs / 1000),
    submitSeconds: Math.round(submittedMs / 1000),
    workersKilled: counts.workers,
    serversKilled: counts.servers,
    attemptsPerJob: Number((attempts / jobs).toFixed(2)),
    leftInQueue: Object.values(queues).reduce((sum, { queued, running }) => sum + queued + running, 0),
    ...faults,
  }),
)
process.exit(Object.values(faults).some((count) => count > 0) ? 1 : 0)
