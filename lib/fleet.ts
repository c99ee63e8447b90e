import { resolve } from 'node:path'
import type { NativeFleet, NativeWorker } from '../native/native'
import { onAbort, throwIfAborted } from './abort'
import { type ErrorCode, invalidOption, settle, SheepdogError } from './error'
import { fleetHost } from './fleet/host'
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

/** Options of `Fleet.connect`. */
export interface FleetOptions {
  /**
   * Keep the fleet in the memory of this process, for unit tests of handlers. No server is started, and
   * nothing is stored: the fleet ends with `close()`. No other option but `leaseMs` applies.
   *
   * @default false
   */
  memory?: boolean
  /**
   * Addresses of NATS servers (2.12 or newer, with JetStream).
   *
   * @default the variable SHEEPDOG_NATS, else a server that this process starts, with its store in
   *   `dir`; all processes with the same `dir` share it
   * @throws FLEET_UNREACHABLE, FLEET_SERVER_TOO_OLD, FLEET_SERVER_MISSING
   */
  servers?: string | string[]
  /**
   * Folder for the store of a server that is started here.
   *
   * @default ".sheepdog/fleet"
   */
  dir?: string
  /** Path of a NATS credentials file. */
  credentials?: string
  /**
   * Token for the server.
   *
   * @throws FLEET_UNAUTHORIZED when the server refuses it.
   */
  token?: string
  /**
   * File with the certificates (PEM) that the server's certificate must be signed by, for `tls://`.
   *
   * @default the certificates that the system trusts, and NODE_EXTRA_CA_CERTS
   */
  ca?: string
  /**
   * Name that separates several fleets on one server: lower-case letters, digits and "-".
   *
   * @default "sd"
   */
  prefix?: string
  /**
   * A job whose worker has been silent for this long is given to another worker, in milliseconds. The
   * value is stored with the fleet at its first connection.
   *
   * @default 30_000
   */
  leaseMs?: number
  /**
   * Number of copies of everything in a cluster of servers, when the fleet is created.
   *
   * @default 1
   */
  replicas?: number
}

/** The answer to one job of `fleet.submitMany()`. */
export interface SubmittedJob {
  /** Id of the job; empty for a refused job without one. */
  id: string
  /** The job, unless it was refused. */
  job?: Job
  /** `true`: the fleet had a job of this id already, and it stays as it is. */
  known?: boolean
  /** Reason why the job was refused. */
  error?: SheepdogError
}

interface SubmittedFacts {
  id: string
  known: boolean
  error: { code: string; message: string; [fact: string]: unknown } | null
}

/** Present state of a fleet. */
export interface FleetStatus {
  /** Version of the server. */
  server: string
  /** Lease of the fleet, in milliseconds. */
  leaseMs: number
  /** Counts for each queue. */
  queues: Record<
    string,
    {
      /** Number of jobs that wait. */
      queued: number
      /** Number of jobs that run. */
      running: number
      /** Time of submission of the oldest job that waits. */
      oldestSubmittedAt?: number
    }
  >
  /** Workers of the fleet. */
  workers: {
    /** Name of the worker. */
    name: string
    /** Process id of the worker. */
    pid: number
    /** Queues that it takes jobs from. */
    queues: string[]
    /** Number of jobs that it runs at once. */
    concurrency: number
    /** Names of its handlers. */
    handlers: string[]
    /** Ids of the jobs that it runs. */
    running: string[]
  }[]
  /** Fill level of each stream, by its name. */
  storage: Record<
    string,
    {
      /** Bytes that are stored. */
      bytes: number
      /** Limit of the stream in bytes. 0: as much as the server has. */
      maxBytes: number
      /** Number of messages. */
      messages: number
      /** Whether the stream refuses new messages. */
      isFull: boolean
    }
  >
  /** Jobs that make no progress; the oldest 20. */
  stuck: {
    /** Id of the job. */
    id: string
    /** Reason. */
    why: string
  }[]
}

/** Jobs that `fleet.prune()` removes. */
export interface PruneOptions {
  /** Jobs that ended at least this many milliseconds ago. */
  olderThanMs: number
  /**
   * Only jobs in these states.
   *
   * @default every state in which a job is over
   */
  state?: JobState | JobState[]
  /**
   * Only jobs of this queue.
   *
   * @default all queues
   */
  queue?: string
  /**
   * Count what would be removed, and remove nothing.
   *
   * @default false
   */
  dryRun?: boolean
}

/** Numbers of what `fleet.prune()` removed. */
export interface Pruned {
  /** Number of jobs. */
  jobs: number
  /** Number of results, artifacts, sessions and long specs. */
  objects: number
  /** Size of the objects in bytes. */
  bytes: number
}

const checks = {
  servers: check.anyOf('an address or an array of addresses', check.name, check.strings),
  memory: check.boolean,
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
 * A queue of jobs for many machines. No job is lost, and only one attempt at a job counts.
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

  /**
   * Connects to a fleet, and creates it on its first use.
   *
   * @throws FLEET_UNREACHABLE, FLEET_UNAUTHORIZED, FLEET_SERVER_TOO_OLD, FLEET_SERVER_MISSING (the
   *   message says how to get a server)
   */
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
    return new Fleet((await settle(fleetHost().connect(spec))) as NativeFleet)
  }

  /**
   * Submits a job. Once it resolves, the job will run, whichever process is killed meanwhile.
   * Submitting the same id again gives the same job.
   *
   * @throws FLEET_FULL when too many jobs wait; FLEET_UNREACHABLE after 30 seconds without a server.
   */
  async submit(job: JobOptions): Promise<Job> {
    const spec = jobSpec(job)
    job.signal?.throwIfAborted()
    return new Job(this.#fleet, await settle<string>(this.#fleet.submit(JSON.stringify(spec))))
  }

  /**
   * Submits many jobs at once, much faster than one by one. Resolves with one answer for each job, in
   * order. A job that is refused does not fail the others; its answer has the `error`.
   *
   * @throws FLEET_CLOSED
   * @example
   * const answers = await fleet.submitMany(files.map((path) => ({ handler: 'check', data: { path } })))
   * const refused = answers.filter(({ error }) => error)
   */
  async submitMany(jobs: JobOptions[]): Promise<SubmittedJob[]> {
    if (!Array.isArray(jobs)) throw invalidOption('jobs', `expected an array of jobs, got ${show(jobs)}`)
    const specs: unknown[] = []
    const places: number[] = []
    const answers: SubmittedJob[] = jobs.map((job, place) => {
      try {
        specs.push(jobSpec(job))
        places.push(place)
        return { id: '' }
      } catch (error) {
        return { id: job?.id ?? '', error: error as SheepdogError }
      }
    })
    const text = await settle<string>(this.#fleet.submitMany(JSON.stringify(specs)))
    for (const [at, { id, known, error }] of (JSON.parse(text) as SubmittedFacts[]).entries()) {
      const place = places[at]!
      if (error) {
        const { code, message, ...facts } = error
        answers[place] = {
          id: jobs[place]!.id ?? '',
          error: new SheepdogError(code as ErrorCode, message, facts),
        }
      } else answers[place] = { id, job: new Job(this.#fleet, id), ...(known && { known }) }
    }
    return answers
  }

  /**
   * Finds a job by its id.
   *
   * @throws JOB_NOT_FOUND
   */
  async job(id: string): Promise<Job> {
    check.name('id', id)
    const job = new Job(this.#fleet, id)
    await job.record()
    return job
  }

  /** Yields the records of all jobs that the fleet has, in the order of submission. */
  async *jobs(filter: { queue?: string; state?: JobState } = {}): AsyncGenerator<JobRecord, void, undefined> {
    checkOptions(filter, filterChecks, 'filter')
    const records = JSON.parse(await settle<string>(this.#fleet.records())) as StoredRecord[]
    records.sort((left, right) => left.submittedAt - right.submittedAt || (left.id < right.id ? -1 : 1))
    for (const record of records) {
      const { queue = record.queue, state = record.state } = filter
      if (record.queue === queue && record.state === state) yield shown(record)
    }
  }

  /** Starts a worker, which runs jobs in this process. */
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

  /** Reads queues, workers, the fill level of the streams, and jobs that make no progress. */
  async status(): Promise<FleetStatus> {
    return JSON.parse(await settle<string>(this.#fleet.status())) as FleetStatus
  }

  /**
   * Closes the workers of this object and the connection. A server that was started here ends too; its
   * store stays.
   */
  async close(): Promise<void> {
    await settle<void>(this.#fleet.close())
  }

  /** Same as `close()`. */
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
