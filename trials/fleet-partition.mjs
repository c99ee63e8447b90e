// `npm run trial -- fleet-partition [--jobs N --seed N]`: three servers with three replicas, each in a network namespace of its own, and
// workers in two more. Servers and workers are killed, and cut off from the others for a while: no job may be lost, none done
// twice, every log has to be whole. Needs root and iproute2 (`ip netns`); says so where it may not. Its traffic never
// leaves the namespaces that it makes and removes.
import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { wait } from './cases.mjs'
import { judge, loadFleet, randomFrom, settleAll, startWorker, submitAll } from './fleet-trial.mjs'
import { fail, prepare } from '../scripts/setup.mjs'

const { values } = parseArgs({
  options: {
    jobs: { type: 'string', default: '500' },
    seed: { type: 'string', default: `${Date.now() % 1e6}` },
    built: { type: 'boolean', default: false },
    // Set by the script itself, within its namespace.
    inside: { type: 'string' },
  },
})
const [jobs, seed] = [Number(values.jobs), Number(values.seed)]
const events = 12
/** Blows for so long, at most. */
const maxMs = 60_000 + jobs * 100
const servers = [1, 2, 3]
const workerPlaces = [11, 12]
const hubAddress = 1
const prefix = values.inside ?? `sd${process.pid}`
const nameOf = (place) => `${prefix}-${place}`
/** Addresses of documents and benchmarks (RFC 2544), within the namespaces alone. */
const addressOf = (place) => `198.18.0.${place + 10}`

function ip(...args) {
  const { status, stderr } = spawnSync('ip', args, { encoding: 'utf8' })
  return status === 0 ? undefined : `ip ${args.join(' ')}: ${stderr?.trim() || 'no such program'}`
}

/** One bridge in a namespace of its own, every other namespace on a cable to it. */
function makeNetwork() {
  const hub = nameOf('hub')
  const steps = [
    ['netns', 'add', hub],
    ['-n', hub, 'link', 'set', 'lo', 'up'],
    ['-n', hub, 'link', 'add', 'name', 'bridge0', 'type', 'bridge'],
    ['-n', hub, 'addr', 'add', `${addressOf(hubAddress - 10)}/24`, 'dev', 'bridge0'],
    ['-n', hub, 'link', 'set', 'bridge0', 'up'],
  ]
  for (const place of [...servers, ...workerPlaces]) {
    const name = nameOf(place)
    steps.push(
      ['netns', 'add', name],
      ['-n', hub, 'link', 'add', 'name', `to${place}`, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name],
      ['-n', hub, 'link', 'set', `to${place}`, 'master', 'bridge0'],
      ['-n', hub, 'link', 'set', `to${place}`, 'up'],
      ['-n', name, 'addr', 'add', `${addressOf(place)}/24`, 'dev', 'eth0'],
      ['-n', name, 'link', 'set', 'eth0', 'up'],
      ['-n', name, 'link', 'set', 'lo', 'up'],
    )
  }
  for (const step of steps) {
    const problem = ip(...step)
    if (problem) return problem
  }
}

function removeNetwork() {
  for (const place of ['hub', ...servers, ...workerPlaces]) ip('netns', 'del', nameOf(place))
}

if (!values.inside) {
  if (process.platform !== 'linux') fail('network namespaces are Linux alone')
  if (!values.built) prepare({ addon: 'any' })
  const problem = makeNetwork()
  if (problem) {
    removeNetwork()
    fail(`NOT RUN: no network namespaces here, which takes root and iproute2 (${problem})`)
  }
  const args = [fileURLToPath(import.meta.url), '--inside', prefix, '--jobs', `${jobs}`, '--seed', `${seed}`]
  const child = spawn('ip', ['netns', 'exec', nameOf('hub'), process.execPath, ...args], { stdio: 'inherit' })
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal))
  child.once('exit', (code) => {
    removeNetwork()
    process.exit(code ?? 1)
  })
} else {
  await inside()
}

async function inside() {
  const { Fleet, server } = loadFleet(true)
  const random = randomFrom(seed)
  const between = (least, most) => least + random() * (most - least)
  const oneOf = (list) => list[Math.floor(random() * list.length)]
  const base = mkdtempSync(join(tmpdir(), 'fleet-partition-'))
  const counts = { workersKilled: 0, serversKilled: 0, serversCutOff: 0, workersCutOff: 0 }
  const children = new Set()
  const within = (place) => ['ip', 'netns', 'exec', nameOf(place)]
  process.once('exit', () => children.forEach((child) => child.kill('SIGKILL')))
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))
  let [isCalm, isOver] = [false, false]

  const running = new Map()
  function startServer(place) {
    const store = join(base, `${place}`)
    mkdirSync(store, { recursive: true })
    const config = join(store, 'nats-server.conf')
    const routes = servers
      .filter((other) => other !== place)
      .map((other) => `nats://${addressOf(other)}:6222`)
    writeFileSync(
      config,
      `listen: "${addressOf(place)}:4222"
server_name: "n${place}"
max_payload: 8MB
jetstream { store_dir: "${store}", sync_interval: always, max_file_store: 2GB }
cluster { name: "c", listen: "${addressOf(place)}:6222", routes: [${routes.map((route) => `"${route}"`).join(', ')}] }
`,
    )
    const [program, ...args] = [...within(place), server, '-c', config]
    const child = spawn(program, args, { stdio: 'ignore' })
    children.add(child)
    running.set(place, child)
    child.once('exit', () => {
      children.delete(child)
      if (!isOver) setTimeout(() => isOver || startServer(place), 300)
    })
  }
  servers.forEach(startServer)
  const options = {
    servers: servers.map((place) => `nats://${addressOf(place)}:4222`),
    replicas: 3,
    leaseMs: 3000,
  }
  let fleet
  for (let tries = 0; !fleet; tries++) {
    try {
      fleet = await Fleet.connect(options)
    } catch (error) {
      // The cluster has no leader yet.
      if (tries === 120) throw error
      await wait(500)
    }
  }

  async function keepWorker(place) {
    while (!isOver) {
      const { worker, ended, ready } = startWorker(options, { concurrency: 12 }, within(place))
      children.add(worker)
      await Promise.race([ready, wait(20_000)])
      await Promise.race([wait(between(2000, 12_000)), ended])
      while (isCalm && !isOver) await wait(100)
      worker.kill(isOver ? 'SIGTERM' : 'SIGKILL')
      if (!isOver) counts.workersKilled++
      await Promise.race([ended, wait(15_000).then(() => worker.kill('SIGKILL'))])
      await ended
      children.delete(worker)
    }
  }

  /** One server at a time, so that the other two have a majority; workers at any time. */
  async function strikeServers() {
    while (!isCalm) {
      await wait(between(4000, 8000))
      const place = oneOf(servers)
      if (isCalm) return
      if (random() < 0.5) {
        counts.serversKilled++
        running.get(place).kill('SIGKILL')
        await wait(3000)
      } else {
        counts.serversCutOff++
        await cutOff(place, between(2000, 6000))
        await wait(3000)
      }
    }
  }

  async function strikeWorkers() {
    while (!isCalm) {
      await wait(between(5000, 9000))
      if (isCalm) return
      counts.workersCutOff++
      // For longer than the lease: others do its jobs meanwhile.
      await cutOff(oneOf(workerPlaces), between(1000, 7000))
    }
  }

  async function cutOff(place, ms) {
    const link = (state) => ip('-n', nameOf('hub'), 'link', 'set', `to${place}`, state)
    link('down')
    await wait(ms)
    link('up')
  }

  const begun = performance.now()
  const striking = [
    strikeServers(),
    strikeWorkers(),
    ...workerPlaces.flatMap((place) => [keepWorker(place), keepWorker(place)]),
  ]
  const ids = await submitAll(fleet, { jobs, events, keys: 20 })
  const faults = await settleAll(fleet, ids, begun + maxMs, () => (isCalm = true))
  const seconds = Math.round((performance.now() - begun) / 1000)
  isOver = true
  await Promise.all(striking)
  const { attempts, leftInQueue, ...found } = await judge(fleet, ids, events)
  await fleet.close()
  children.forEach((child) => child.kill('SIGKILL'))
  rmSync(base, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
  Object.assign(faults, found)
  console.log(
    JSON.stringify({
      seed,
      jobs,
      seconds,
      ...counts,
      attemptsPerJob: Number((attempts / jobs).toFixed(2)),
      leftInQueue,
      ...faults,
    }),
  )
  process.exit(Object.values(faults).some((count) => count > 0) ? 1 : 0)
}
