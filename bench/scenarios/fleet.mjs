// Jobs through a fleet, beside what a user would pick instead: BullMQ on Redis and pg-boss on PostgreSQL. One machine, one worker
// process (this one), 32 jobs at once that do nothing. What is acknowledged is on the disk with all of them, but for
// "BullMQ everysec", which is how Redis is usually run. The peers come from npm into ~/.cache/sheepdog-bench, their servers are
// those of the machine; what can't be had is left out, loudly.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { createServer, connect } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import sheepdog from '../../entries/fleet.js'
import { findServer } from '../../scripts/nats-server.mjs'
import { percentile } from '../round.mjs'
import { table } from '../verdict.mjs'

const { Fleet } = sheepdog
const CONCURRENCY = 32
/** Submitted at once, without an answer. */
const SUBMITTERS = 32
const READERS = 100
/** Jobs in one call of those that are submitted many at once. */
const BATCH = 250
const peersFolder = process.env.SHEEPDOG_BENCH_PEERS || join(homedir(), '.cache', 'sheepdog-bench')
const peerPackages = ['bullmq@6.7.0', 'ioredis@5', 'pg-boss@12.24.1']
/** A user without rights: PostgreSQL refuses root. */
const NOBODY = 65_534

export function plan({ quick }) {
  const size = quick
    ? { jobs: 300, waits: 50, batch: 2000, events: 2000, bytes: 128 << 20 }
    : { jobs: 1000, waits: 100, batch: 5000, events: 5000, bytes: 1 << 30 }
  const contenders = ['sheepdog', 'BullMQ', 'BullMQ everysec', 'pg-boss', 'readers', 'artifact'].filter(
    (name) => {
      const problem = missing(name)
      if (problem) console.log(`  ${name} IS LEFT OUT: ${problem}`)
      return !problem
    },
  )
  return { rounds: quick ? 1 : 3, ...size, contenders: contenders.map((name) => ({ name, ...size })) }
}

export const title = ({ jobs, waits, batch }) =>
  `${jobs} jobs that do nothing, ${CONCURRENCY} at once; ${waits} that an idle worker waits for; ${batch} submitted ${BATCH} at once; a log and an artifact`

function missing(name) {
  const { problem } = findServer()
  if (problem) return problem
  if (!name.startsWith('BullMQ') && name !== 'pg-boss') return undefined
  const server = name === 'pg-boss' ? postgresFolder() : onPath('redis-server')
  if (!server) return `no ${name === 'pg-boss' ? 'PostgreSQL' : 'redis-server'} on this machine`
  if (existsSync(join(peersFolder, 'node_modules', name === 'pg-boss' ? 'pg-boss' : 'bullmq')))
    return undefined
  mkdirSync(peersFolder, { recursive: true })
  writeFileSync(join(peersFolder, 'package.json'), '{"private":true}\n')
  const args = ['install', '--no-audit', '--no-fund', '--loglevel=error', ...peerPackages]
  const { status } = spawnSync('npm', args, { cwd: peersFolder, stdio: ['ignore', 'ignore', 'inherit'] })
  return status === 0 ? undefined : `${peerPackages.join(', ')} could not be installed`
}

function onPath(program) {
  return (process.env.PATH ?? '')
    .split(':')
    .map((folder) => join(folder, program))
    .find(existsSync)
}

function postgresFolder() {
  const found = onPath('initdb')
  if (found) return join(found, '..')
  const versions = existsSync('/usr/lib/postgresql') ? readdirSync('/usr/lib/postgresql') : []
  return versions
    .map((version) => `/usr/lib/postgresql/${version}/bin`)
    .findLast((folder) => existsSync(join(folder, 'initdb')))
}

const peer = (name) => createRequire(join(peersFolder, 'package.json'))(name)
const now = () => performance.now()
const newFolder = () => mkdtempSync(join(tmpdir(), 'fleet-bench-'))

/** Megabytes of a process and all below it; what they share counts once. */
function memoryMb(pid) {
  const own =
    Number(/^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1] ?? 0) / 1024
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean)
  return children.reduce((sum, child) => sum + memoryMb(child), own)
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  return port
}

async function answering(port, child) {
  for (let tries = 0; tries < 600; tries++) {
    if (child.exitCode !== null) throw new Error(`${child.spawnfile} ended with ${child.exitCode}`)
    const socket = connect(port, '127.0.0.1')
    const isThere = await Promise.race([
      once(socket, 'connect').then(() => true),
      once(socket, 'error').then(() => false),
    ]).catch(() => false)
    socket.destroy()
    if (isThere) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(`${child.spawnfile} does not answer`)
}

/**
 * How each engine does it: `submit(n)`; `submitMany(list)` into a queue without a worker; `onJob` is called when a job starts;
 * `done(job)` resolves when it has ended.
 */
const engines = {
  sheepdog: sheepdogs,
  BullMQ: (onJob) => bullmq(onJob, 'always'),
  'BullMQ everysec': (onJob) => bullmq(onJob, 'everysec'),
  async 'pg-boss'(onJob) {
    const { PgBoss, default: legacy } = peer('pg-boss')
    const dir = newFolder()
    const own = process.getuid() === 0 ? { uid: NOBODY, gid: NOBODY } : {}
    if (own.uid) chownSync(dir, NOBODY, NOBODY)
    const bin = postgresFolder()
    const store = join(dir, 'store')
    const made = spawnSync(join(bin, 'initdb'), ['-D', store, '-U', 'bench', '-A', 'trust'], {
      ...own,
      cwd: dir,
      encoding: 'utf8',
    })
    if (made.status !== 0) throw new Error(made.stderr)
    const port = await freePort()
    const args = ['-D', store, '-p', `${port}`, '-k', dir, '-c', 'listen_addresses=127.0.0.1']
    const server = spawn(join(bin, 'postgres'), args, { ...own, cwd: dir, stdio: 'ignore' })
    await answering(port, server)
    const connectionString = `postgres://bench@127.0.0.1:${port}/postgres`
    let boss
    for (let tries = 0; !boss; tries++) {
      try {
        boss = await new (PgBoss ?? legacy)({ connectionString, max: 20 }).start()
      } catch (error) {
        if (tries === 20) throw error
        await new Promise((resolve) => setTimeout(resolve, 200))
      }
    }
    // Its server is ended while it may still ask for something.
    boss.on('error', () => {})
    await boss.createQueue('bench')
    await boss.createQueue('batch')
    const waiting = new Map()
    const done = new Set()
    for (let n = 0; n < CONCURRENCY; n++)
      await boss.work('bench', { pollingIntervalSeconds: 0.5, batchSize: 1 }, async ([job]) => {
        onJob(job.data.n)
        // Its row is "completed" a moment after this: the figure is a little too good.
        const tell = waiting.get(job.id)
        if (tell) tell()
        else done.add(job.id)
      })
    return {
      submit: (n) => boss.send('bench', { n }),
      submitMany: (list) =>
        boss.insert(
          'batch',
          list.map((n) => ({ data: { n } })),
        ),
      done: (id) => (done.has(id) ? undefined : new Promise((resolve) => waiting.set(id, resolve))),
      serverPid: () => server.pid,
      async close() {
        await boss.stop({ graceful: false })
        server.kill('SIGINT')
        await once(server, 'exit')
        rmSync(dir, { recursive: true, force: true })
      },
    }
  },
}

async function sheepdogs(onJob) {
  process.env.SHEEPDOG_NATS_SERVER = findServer().server
  const dir = newFolder()
  const fleet = await Fleet.connect({ dir })
  const worker = await fleet.work({
    concurrency: CONCURRENCY,
    handlers: { nothing: (job) => onJob(job.data) },
  })
  return {
    submit: (n) => fleet.submit({ handler: 'nothing', data: n }),
    submitMany: (list) =>
      fleet.submitMany(list.map((n) => ({ handler: 'nothing', data: n, queue: 'batch' }))),
    done: (job) => job.result,
    serverPid: () => JSON.parse(readFileSync(join(dir, 'fleet.json'), 'utf8')).pid,
    async close() {
      await worker.close()
      await fleet.close()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

async function bullmq(onJob, fsync) {
  const { Queue, Worker, QueueEvents } = peer('bullmq')
  const dir = newFolder()
  const port = await freePort()
  const args = [
    '--port',
    `${port}`,
    '--bind',
    '127.0.0.1',
    '--dir',
    dir,
    '--save',
    '',
    '--appendonly',
    'yes',
    '--appendfsync',
    fsync,
  ]
  const server = spawn('redis-server', args, { stdio: 'ignore' })
  await answering(port, server)
  const connection = { host: '127.0.0.1', port }
  const queue = new Queue('bench', { connection })
  const batches = new Queue('batch', { connection })
  const events = new QueueEvents('bench', { connection })
  await events.waitUntilReady()
  // Each job that is waited for is one.
  queue.setMaxListeners(0)
  const worker = new Worker('bench', async (job) => onJob(job.data), { connection, concurrency: CONCURRENCY })
  await worker.waitUntilReady()
  return {
    submit: (n) => queue.add('bench', n),
    submitMany: (list) => batches.addBulk(list.map((n) => ({ name: 'bench', data: n }))),
    done: (job) => job.waitUntilFinished(events),
    serverPid: () => server.pid,
    async close() {
      await worker.close()
      await events.close()
      await queue.close()
      await batches.close()
      server.kill('SIGKILL')
      await once(server, 'exit')
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

/**
 * Jobs a second, from the first submit to the last result; milliseconds from submit to start on a worker that is idle; jobs a
 * second that are submitted many at once.
 */
async function compare(name, { jobs, waits, batch }) {
  let started = () => {}
  const engine = await engines[name](() => started())
  try {
    for (let n = 0; n < 20; n++) await engine.done(await engine.submit(n))
    const latencies = []
    for (let n = 0; n < waits; n++) {
      const begun = now()
      const start = new Promise((resolve) => (started = () => resolve(now() - begun)))
      const job = await engine.submit(n)
      latencies.push(await start)
      await engine.done(job)
    }
    started = () => {}
    const begun = now()
    let next = 0
    const submitted = []
    await Promise.all(
      Array.from({ length: SUBMITTERS }, async () => {
        while (next < jobs) submitted.push(await engine.submit(next++))
      }),
    )
    await Promise.all(submitted.map((job) => engine.done(job)))
    const jobsPerSecond = (jobs / (now() - begun)) * 1000
    const batchBegun = now()
    for (let from = 0; from < batch; from += BATCH)
      await engine.submitMany(Array.from({ length: BATCH }, (_, n) => from + n))
    const batchedPerSecond = (batch / (now() - batchBegun)) * 1000
    return {
      jobsPerSecond,
      batchedPerSecond,
      latencyP50Ms: percentile(latencies, 0.5),
      latencyP99Ms: percentile(latencies, 0.99),
      serverMb: memoryMb(engine.serverPid()),
      workerMb: process.memoryUsage.rss() / 1e6,
    }
  } finally {
    await engine.close()
  }
}

/** A job's log, read by many while it is written; then once more by one. */
async function readers({ events }) {
  process.env.SHEEPDOG_NATS_SERVER = findServer().server
  const dir = newFolder()
  const fleet = await Fleet.connect({ dir })
  let go
  const ready = new Promise((resolve) => (go = resolve))
  const worker = await fleet.work({
    handlers: {
      async talk(job) {
        await ready
        for (let n = 0; n < events; n++) await job.emit({ type: 'said', n, text: 'x'.repeat(80) })
      },
    },
  })
  const job = await fleet.submit({ handler: 'talk' })
  const read = async () => {
    let seen = 0
    for await (const event of job.events()) if (event.n === seen) seen++
    if (seen !== events) throw new Error(`a reader saw ${seen} of ${events}`)
  }
  const begun = now()
  const reading = Array.from({ length: READERS }, read)
  go()
  await Promise.all(reading)
  const liveMs = now() - begun
  const again = now()
  await read()
  const value = {
    readersEventsPerSecond: ((READERS * events) / liveMs) * 1000,
    replayEventsPerSecond: (events / (now() - again)) * 1000,
    serverMb: memoryMb(JSON.parse(readFileSync(join(dir, 'fleet.json'), 'utf8')).pid),
    workerMb: process.memoryUsage.rss() / 1e6,
  }
  await worker.close()
  await fleet.close()
  rmSync(dir, { recursive: true, force: true })
  return value
}

async function artifact({ bytes }) {
  process.env.SHEEPDOG_NATS_SERVER = findServer().server
  const [dir, cwd] = [newFolder(), newFolder()]
  const file = join(cwd, 'artifact.bin')
  spawnSync('dd', ['if=/dev/urandom', `of=${file}`, 'bs=1M', `count=${bytes >> 20}`], { stdio: 'ignore' })
  const fleet = await Fleet.connect({ dir })
  const before = process.memoryUsage.rss()
  let most = before
  const watch = setInterval(() => (most = Math.max(most, process.memoryUsage.rss())), 20)
  let putMs = 0
  const worker = await fleet.work({
    handlers: {
      async keep(job) {
        const begun = now()
        await job.artifact('artifact.bin')
        putMs = now() - begun
      },
    },
  })
  const job = await fleet.submit({ handler: 'keep', cwd })
  await job.result
  const begun = now()
  const to = join(cwd, 'back.bin')
  await job.download('artifact.bin', to)
  const getMs = now() - begun
  clearInterval(watch)
  if (statSync(to).size !== bytes) throw new Error('it did not come back whole')
  const value = {
    putMibPerSecond: bytes / (1 << 20) / (putMs / 1000),
    getMibPerSecond: bytes / (1 << 20) / (getMs / 1000),
    grownMb: (most - before) / 1e6,
    serverMb: memoryMb(JSON.parse(readFileSync(join(dir, 'fleet.json'), 'utf8')).pid),
  }
  await worker.close()
  await fleet.close()
  for (const folder of [dir, cwd]) rmSync(folder, { recursive: true, force: true })
  return value
}

export const contenders = {
  ...Object.fromEntries(Object.keys(engines).map((name) => [name, (sizes) => compare(name, sizes)])),
  readers,
  artifact,
}

export function print(medians) {
  const engineRows = Object.keys(engines).filter((name) => medians[name])
  table(engineRows.map((name) => ({ name, ...medians[name] })))
  if (medians.readers) table([{ name: `${READERS} readers of one log`, ...medians.readers }])
  if (medians.artifact) table([{ name: 'an artifact', ...medians.artifact }])
}

export function figures({ sheepdog: own, readers: log, artifact: file }) {
  return [
    ['a job that an idle worker waits for: p50', own.latencyP50Ms, '<=', 20, ' ms'],
    ['100 readers of one log: memory of the server', log.serverMb, '<=', 200, ' MB'],
    ['an artifact: memory of the worker', file.grownMb, '<=', 64, ' MB'],
  ]
}
