// `npm run trial -- fleet [--jobs N --seed N --cluster]`: jobs, while workers are killed, or stopped for longer than the lease, and the
// server is killed at random. None may be lost, none done twice, every log has to be whole, and readers that follow the events of some
// jobs are told just that. Every second job has one of 20 keys. With --cluster three servers with three replicas are each in a network
// namespace of their own, and workers in two more, which are cut off from the others for a while as well. That takes root and iproute2
// (`ip netns`), and says so where it may not; its traffic never leaves the namespaces that it makes and removes.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { randomOf } from '../fixtures/faults/chance.mjs'
import { wait } from './cases.mjs'
import { openCluster, runInNetwork } from './fleet/cluster.mjs'
import { judge, loadFleet, settleAll, settleFollowers, startWorker, submitAll } from './fleet/jobs.mjs'

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '500' },
    seed: { type: 'string', default: `${Date.now() % 1e6}` },
    cluster: { type: 'boolean', default: false },
    built: { type: 'boolean', default: false },
    // Set by the script itself, within its namespace.
    inside: { type: 'string' },
  },
})
const [jobs, seed] = [Number(values.jobs), Number(values.seed)]
const { Fleet, server } = loadFleet(values.built || values.inside !== undefined)
if (values.cluster && !values.inside) await runInNetwork(['--jobs', `${jobs}`, '--seed', `${seed}`])

const random = randomOf(seed)
const between = (least, most) => least + random() * (most - least)
const base = mkdtempSync(join(tmpdir(), 'fleet-trial-'))
/** One server, which the fleet starts, and four workers. */
const alone = {
  options: { dir: base, leaseMs: 2000 },
  prefixes: [[], [], [], []],
  blows: [
    {
      everyMs: [3000, 7000],
      strike() {
        try {
          process.kill(JSON.parse(readFileSync(join(base, 'fleet.json'), 'utf8')).pid, 'SIGKILL')
          return 'serversKilled'
        } catch {
          // It is being started.
        }
      },
    },
  ],
  close() {},
}
const place = values.inside ? openCluster({ prefix: values.inside, base, server, random, between }) : alone
const { options, prefixes, blows } = place
/** Blows for so long, at most. */
const maxMs = 60_000 + jobs * 100
const counts = {}
const count = (what) => what && (counts[what] = (counts[what] ?? 0) + 1)
const children = new Set()
process.once('exit', () => children.forEach((child) => child.kill('SIGKILL')))
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))
let [isCalm, isOver] = [false, false]

async function keepWorker(prefix) {
  while (!isOver) {
    const { worker, ended, ready } = startWorker(options, { concurrency: 12 }, prefix)
    children.add(worker)
    await Promise.race([ready, wait(20_000)])
    await Promise.race([wait(between(600, 8000)), ended])
    if (!isCalm && random() < 0.3) {
      count('workersFrozen')
      worker.kill('SIGSTOP')
      await wait(options.leaseMs * 2)
      // Others have its jobs by now. What it has done commits at once, and has to be refused.
      worker.kill('SIGCONT')
      await Promise.race([wait(2000), ended])
    }
    while (isCalm && !isOver) await wait(100)
    // The last ones are drained, as in life.
    worker.kill(isOver ? 'SIGTERM' : 'SIGKILL')
    if (!isOver) count('workersKilled')
    await Promise.race([ended, wait(15_000).then(() => worker.kill('SIGKILL'))])
    await ended
    children.delete(worker)
  }
}

async function strikeOn({ everyMs, strike }) {
  while (!isCalm) {
    await wait(between(...everyMs))
    if (!isCalm) count(await strike())
  }
}

/** A cluster has no leader at first. */
async function connect() {
  for (let tries = 0; ; tries++) {
    try {
      return await Fleet.connect(options)
    } catch (error) {
      if (!values.inside || tries === 120) throw error
      await wait(500)
    }
  }
}

const fleet = await connect()
const begun = performance.now()
const running = [...blows.map(strikeOn), ...prefixes.map(keepWorker)]
const { ids, followers } = await submitAll(fleet, jobs)
const faults = await settleAll(fleet, ids, begun + maxMs, () => (isCalm = true))
Object.assign(faults, await settleFollowers(fleet, followers))
const seconds = Math.round((performance.now() - begun) / 1000)
isOver = true
await Promise.all(running)
const { attempts, leftInQueue, ...found } = await judge(fleet, ids)
await fleet.close()
place.close()
rmSync(base, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
Object.assign(faults, found)
const attemptsPerJob = Number((attempts / jobs).toFixed(2))
console.log(JSON.stringify({ seed, jobs, seconds, ...counts, attemptsPerJob, leftInQueue, ...faults }))
process.exit(Object.values(faults).some((number) => number > 0) ? 1 : 0)
