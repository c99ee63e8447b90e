// Three servers with three replicas and two places for workers, each in a network namespace of its own: `trial -- fleet --cluster`.
import { spawn, spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { wait } from '../cases.mjs'
import { fail } from '../../scripts/step.mjs'

const servers = [1, 2, 3]
const workerPlaces = [11, 12]
/** Addresses of documents and benchmarks (RFC 2544), within the namespaces alone. */
const addressOf = (place) => `198.18.0.${place + 10}`

function ip(...args) {
  const { status, stderr } = spawnSync('ip', args, { encoding: 'utf8' })
  return status === 0 ? undefined : `ip ${args.join(' ')}: ${stderr?.trim() || 'no such program'}`
}

/** One bridge in a namespace of its own, every other namespace on a cable to it. Returns what went wrong. */
function makeNetwork(prefix) {
  const hub = `${prefix}-hub`
  const steps = [
    ['netns', 'add', hub],
    ['-n', hub, 'link', 'set', 'lo', 'up'],
    ['-n', hub, 'link', 'add', 'name', 'bridge0', 'type', 'bridge'],
    ['-n', hub, 'addr', 'add', '198.18.0.1/24', 'dev', 'bridge0'],
    ['-n', hub, 'link', 'set', 'bridge0', 'up'],
  ]
  for (const place of [...servers, ...workerPlaces]) {
    const name = `${prefix}-${place}`
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

function removeNetwork(prefix) {
  for (const place of ['hub', ...servers, ...workerPlaces]) ip('netns', 'del', `${prefix}-${place}`)
}

/** Runs this script again within the network, and ends as that does. */
export async function runInNetwork(args) {
  if (process.platform !== 'linux') fail('network namespaces are Linux alone')
  const prefix = `sd${process.pid}`
  const problem = makeNetwork(prefix)
  if (problem) {
    removeNetwork(prefix)
    fail(`NOT RUN: no network namespaces here, which takes root and iproute2 (${problem})`)
  }
  const again = [process.execPath, process.argv[1], '--inside', prefix, ...args]
  const child = spawn('ip', ['netns', 'exec', `${prefix}-hub`, ...again], { stdio: 'inherit' })
  for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => child.kill(signal))
  const code = await new Promise((resolve) => child.once('exit', resolve))
  removeNetwork(prefix)
  process.exit(code ?? 1)
}

/** Starts the servers, which are started again when they end. The other members are those of the place that fleet.mjs makes. */
export function openCluster({ prefix, base, server, random, between }) {
  const within = (place) => ['ip', 'netns', 'exec', `${prefix}-${place}`]
  const oneOf = (list) => list[Math.floor(random() * list.length)]
  const running = new Map()
  let isOver = false
  function start(place) {
    const store = join(base, `${place}`)
    mkdirSync(store, { recursive: true })
    const config = join(store, 'nats-server.conf')
    const others = servers.filter((other) => other !== place)
    const routes = others.map((other) => `"nats://${addressOf(other)}:6222"`).join(', ')
    writeFileSync(
      config,
      `listen: "${addressOf(place)}:4222"
server_name: "n${place}"
max_payload: 8MB
jetstream { store_dir: "${store}", sync_interval: always, max_file_store: 2GB }
cluster { name: "c", listen: "${addressOf(place)}:6222", routes: [${routes}] }
`,
    )
    const [program, ...args] = [...within(place), server, '-c', config]
    const child = spawn(program, args, { stdio: 'ignore' })
    running.set(place, child)
    child.once('exit', () => !isOver && setTimeout(() => isOver || start(place), 300))
  }
  function close() {
    isOver = true
    for (const child of running.values()) child.kill('SIGKILL')
  }
  servers.forEach(start)
  process.once('exit', close)

  async function cutOff(place, ms) {
    const link = (state) => ip('-n', `${prefix}-hub`, 'link', 'set', `to${place}`, state)
    link('down')
    await wait(ms)
    link('up')
  }
  /** One server at a time, so that the other two have a majority. */
  async function strikeServer() {
    const place = oneOf(servers)
    const isKilled = random() < 0.5
    if (isKilled) running.get(place).kill('SIGKILL')
    else await cutOff(place, between(2000, 6000))
    await wait(3000)
    return isKilled ? 'serversKilled' : 'serversCutOff'
  }
  /** For longer than the lease, now and then: others do its jobs meanwhile. */
  async function strikeWorkers() {
    await cutOff(oneOf(workerPlaces), between(1000, 7000))
    return 'workersCutOff'
  }
  return {
    options: {
      servers: servers.map((place) => `nats://${addressOf(place)}:4222`),
      replicas: 3,
      leaseMs: 3000,
    },
    prefixes: workerPlaces.flatMap((place) => [within(place), within(place)]),
    blows: [
      { everyMs: [4000, 8000], strike: strikeServer },
      { everyMs: [5000, 9000], strike: strikeWorkers },
    ],
    close,
  }
}
