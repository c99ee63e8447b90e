import { resolve } from 'node:path'
import type { NativeFleet, NativeWorker } from '../native/native'
import { onAbort, throwIfAborted } from './abort'
import { invalidOption, settle } from './error'
import { host } from './fleet/host'
import { Job, shown } from './fleet/job'
import type { JobRecord, JobState, StoredRecord } from './fleet/record'
import { jobSpec, type JobOptions } from './fleet/submission'
import { checkWorkOptions, take, Worker, workSpec, type WorkOptions } from './fleet/worker'
import { nativeBudget } from './harness/budget'
import { nativeLimit } from './limit'
import { check, checkOptions, show } from './option'

export { Job, type JobEvent } from './fleet/job'
export type { JobArtifact, JobRecord, JobState } from './fleet/record'
export type { JobOptions, JobSource } from './fleet/submission'
export { Worker, type JobContext, type JobHandler, type WorkOptions } from './fleet/worker'

/** How to get to a fleet. */
export interface FleetOptions {
  /**
   * Addresses of NATS servers (2.12 or newer, with JetStream). Default: the variable SHEEPDOG_NATS, else a server of its own
   * that keeps its store in `dir`, shared by all processes that name the same `dir`.
   */
  servers?: string | string[]
  /** Default ".sheepdog/fleet". */
  dir?: string
  /** A credentials file. */
  credentials?: string
  token?: string
  /**
   * A file with the certificates (PEM) of who signs the server's, for `tls://`. Default: whom the system trusts, and
   * NODE_EXTRA_CA_CERTS.
   */
  ca?: string
  /** Two fleets on one server differ by it: small letters, digits, "-". Default "sd". */
  prefix?: string
  /** A job whose worker is silent for so long is given to another one; default 30 s. The fleet's, stored at its first connect. */
  leaseMs?: number
  /** Copies of everything on a cluster of servers, when the fleet is new; default 1. */
  replicas?: number
}

/** What a fleet looks like right now. */
export interface FleetStatus {
  /** The version of the server. */
  server: string
  leaseMs: number
  queues: Record<string, { queued: number; running: number; oldestSubmittedAt?: number }>
  workers: {
    name: string
    pid: number
    queues: string[]
    concurrency: number
    handlers: string[]
    /** Ids of jobs. */
    running: string[]
  }[]
  /** How full each stream is, by its name. `maxBytes` 0: as much as the server has. */
  storage: Record<string, { bytes: number; maxBytes: number; messages: number; isFull: boolean }>
  /** Jobs that do not go on, and why; the oldest 20. */
  stuck: { id: string; why: string }[]
}

/** Which jobs `fleet.prune()` removes. */
export interface PruneOptions {
  /** Jobs that ended at least this many milliseconds ago. */
  olderThanMs: number
  /** Only jobs in these states. Default: every state in which a job is over. */
  state?: JobState | JobState[]
  /** Only jobs of this queue. Default: all queues. */
  queue?: string
  /** Count what would be removed, and remove nothing. Default: false. */
  dryRun?: boolean
}

/** What `fleet.prune()` removed. */
export interface Pruned {
  jobs: number
  /** Results, artifacts, sessions and long specs. */
  objects: number
  /** The bytes of the objects. */
  bytes: number
}

const checks = {
  servers: check.anyOf('an address or an array of addresses', check.name, check.strings),
  dir: check.name,
  credentials: check.name,
  token: check.name,
  ca: check.name,
  prefix: check.name,
  leaseMs: check.duration,
  replicas: check.count,
}

const states: JobState[] = ['queued', 'running', 'done', 'failed', 'cancelled', 'dead']
const overStates: JobState[] = ['done', 'failed', 'cancelled', 'dead']
const isOver = check.oneOf(...overStates)
const pruneChecks = {
  olderThanMs: check.duration,
  state: check.anyOf('a state in which a job is over, or an array of them', isOver, (path, value) => {
    check.strings(path, value)
    for (const state of value as string[]) isOver(path, state)
  }),
  queue: check.name,
  dryRun: check.boolean,
}
const filterChecks = { queue: check.name, state: check.oneOf(...states) }

/**
 * The same jobs on many machines: none is lost, none done twice.
 *
 * @example
 * await using fleet = await Fleet.connect()
 * await using worker = await fleet.work({ concurrency: 2 })
 * const job = await fleet.submit({ provider: 'codex', prompt: 'Fix the failing test', cwd: '/work' })
 * for await (const event of job.events()) console.log(event.type)
 * console.log((await job.result).text)
 */
export class Fleet implements AsyncDisposable {
  readonly #fleet: NativeFleet

  private constructor(fleet: NativeFleet) {
    this.#fleet = fleet
  }

  /** FLEET_UNREACHABLE, FLEET_UNAUTHORIZED, FLEET_SERVER_TOO_OLD, FLEET_SERVER_MISSING (+ how to get one). */
  static async connect(options: FleetOptions = {}): Promise<Fleet> {
    checkOptions(options, checks)
    const { servers = process.env.SHEEPDOG_NATS, dir = '.sheepdog/fleet', ...rest } = options
    const spec = {
      ...rest,
      servers: addresses(servers),
      dir: resolve(dir),
      serverProgram: process.env.SHEEPDOG_NATS_SERVER || undefined,
      path: process.env.PATH,
      serverPackage: packagedServer(),
    }
    return new Fleet((await settle(host.connect(spec))) as NativeFleet)
  }

  /**
   * Takes a job in: once it resolves, the job will be run, whatever is killed meanwhile. The same id again is the same job.
   * FLEET_FULL when too many wait.
   */
  async submit(job: JobOptions): Promise<Job> {
    const spec = jobSpec(job)
    job.signal?.throwIfAborted()
    return new Job(this.#fleet, await settle<string>(this.#fleet.submit(JSON.stringify(spec))))
  }

  /** JOB_NOT_FOUND when there is none. */
  async job(id: string): Promise<Job> {
    check.name('id', id)
    const job = new Job(this.#fleet, id)
    await job.record()
    return job
  }

  /** Every job that the fleet knows, in the order of submission. */
  async *jobs(filter: { queue?: string; state?: JobState } = {}): AsyncGenerator<JobRecord, void, undefined> {
    checkOptions(filter, filterChecks, 'filter')
    const records = JSON.parse(await settle<string>(this.#fleet.records())) as StoredRecord[]
    records.sort((left, right) => left.submittedAt - right.submittedAt || (left.id < right.id ? -1 : 1))
    for (const record of records) {
      const { queue = record.queue, state = record.state } = filter
      if (record.queue === queue && record.state === state) yield shown(record)
    }
  }

  /** Begins to work on jobs. */
  async work(options: WorkOptions = {}): Promise<Worker> {
    checkWorkOptions(options)
    const { signal, harness } = options
    const notStarted = 'the worker was not started: its abort signal was aborted'
    throwIfAborted(signal, 'FLEET_CLOSED', notStarted)
    const limits = harness?.limit ? [nativeLimit(harness.limit)] : []
    const budget = harness?.budget && nativeBudget(harness.budget)
    const working = this.#fleet.work(workSpec(options), limits, budget, (job) => void take(job, options))
    const worker = new Worker((await settle(working)) as NativeWorker)
    if (signal?.aborted) await worker.close()
    throwIfAborted(signal, 'FLEET_CLOSED', notStarted)
    const letGo = onAbort(signal, () => void worker.close())
    void worker.closed.then(letGo)
    return worker
  }

  /**
   * Removes jobs that are over, with everything that is kept of them: record, events, result, artifacts, session. A job that is
   * tried again meanwhile stays.
   *
   * @throws FLEET_UNAUTHORIZED when this user may not remove anything from the server's streams.
   * @example
   * await fleet.prune({ olderThanMs: 7 * 24 * 3600_000, state: 'done' })
   */
  async prune(options: PruneOptions): Promise<Pruned> {
    checkOptions(options, pruneChecks)
    if (options?.olderThanMs === undefined)
      throw invalidOption('olderThanMs', 'expected a number of milliseconds, got undefined')
    const { olderThanMs, state = [], queue, dryRun = false } = options
    const states = typeof state === 'string' ? [state] : state
    return JSON.parse(
      await settle<string>(this.#fleet.prune({ olderThanMs, states, queue, dryRun })),
    ) as Pruned
  }

  /** Queues, workers, how full the streams are, and what does not go on. */
  async status(): Promise<FleetStatus> {
    return JSON.parse(await settle<string>(this.#fleet.status())) as FleetStatus
  }

  /** Drains its workers and closes the connection; a server of its own ends with it, its store stays. */
  async close(): Promise<void> {
    await settle<void>(this.#fleet.close())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

function addresses(servers: string | string[] | undefined): string[] {
  const list = typeof servers === 'string' ? servers.split(',') : (servers ?? [])
  const found = list.map((server) => server.trim()).filter((server) => server !== '')
  if (Array.isArray(servers) && found.length === 0)
    throw invalidOption('servers', `expected at least one address, got ${show(servers)}`)
  return found
}

/** The program of the optional package for this platform, if it is installed. */
function packagedServer(): string | undefined {
  try {
    return require.resolve(`@sheepdog/nats-server-${process.platform}-${process.arch}/nats-server`)
  } catch {
    return undefined
  }
}
