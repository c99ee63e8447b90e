// `npm run trial -- fleet-chaos [--jobs N --seed N --keys N]`: jobs, while workers and the server are killed at random. None may be
// lost, none done twice, every log has to be whole. Every second job has one of `keys` keys. Ends by itself.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { wait } from './cases.mjs'
import { judge, loadFleet, randomFrom, settleAll, startWorker, submitAll } from './fleet-trial.mjs'

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '500' },
    seed: { type: 'string', default: `${Date.now() % 1e6}` },
    workers: { type: 'string', default: '4' },
    events: { type: 'string', default: '12' },
    keys: { type: 'string', default: '20' },
    built: { type: 'boolean', default: false },
  },
})
const names = ['jobs', 'seed', 'workers', 'events', 'keys']
const [jobs, seed, workers, events, keys] = names.map((name) => Number(values[name]))
/** Blows for so long, at most. */
const maxMs = 30_000 + jobs * 50

const { Fleet } = loadFleet(values.built)

const random = randomFrom(seed)
const between = (least, most) => least + random() * (most - least)
const dir = mkdtempSync(join(tmpdir(), 'fleet-chaos-'))
const fleet = await Fleet.connect({ dir, leaseMs: 2000 })
const counts = { workers: 0, servers: 0 }
let [isCalm, isOver] = [false, false]

async function keepWorker() {
  while (!isOver) {
    const { worker, ended, ready } = startWorker({ dir }, { concurrency: 12 })
    await ready
    await Promise.race([wait(between(600, 5000)), ended])
    while (isCalm && !isOver) await wait(100)
    // The last ones are drained, as in life.
    worker.kill(isOver ? 'SIGTERM' : 'SIGKILL')
    if (!isOver) counts.workers++
    await ended
  }
}

async function strikeServer() {
  while (!isCalm) {
    await wait(between(3000, 7000))
    if (isCalm) return
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
const ids = await submitAll(fleet, { jobs, events, keys })
const submittedMs = performance.now() - begun
const faults = await settleAll(fleet, ids, begun + maxMs, () => (isCalm = true))
const endedMs = performance.now() - begun
isOver = true
await Promise.all(running)
const { attempts, leftInQueue, ...found } = await judge(fleet, ids, events)
await fleet.close()
rmSync(dir, { recursive: true, force: true })
Object.assign(faults, found)
console.log(
  JSON.stringify({
    seed,
    jobs,
    keys,
    seconds: Math.round(endedMs / 1000),
    submitSeconds: Math.round(submittedMs / 1000),
    workersKilled: counts.workers,
    serversKilled: counts.servers,
    attemptsPerJob: Number((attempts / jobs).toFixed(2)),
    leftInQueue,
    ...faults,
  }),
)
process.exit(Object.values(faults).some((count) => count > 0) ? 1 : 0)
