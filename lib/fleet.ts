import type { FleetSpec, NativeFleet, NativeJob, NativeJobPages, NativeWorker } from '../native/native'
import { onAbort, throwIfAborted } from './abort'
import { type ErrorCode, invalidOption, settle, SheepdogError } from './error'
import { fleetHost } from './fleet/host'
import { Job, shown } from './fleet/job'
import {
  checkList,
  filterSpec,
  pruneSpec,
  scheduleSpec,
  shownSchedule,
  type FleetSchedule,
  type JobFilter,
  type JobListOptions,
  type Pruned,
  type PruneOptions,
  type ScheduleOptions,
} from './fleet/operation'
import type { JobRecord, StoredRecord } from './fleet/record'
import { jobSpec, jobText, type JobOptions } from './fleet/submission'
import { checkWorkOptions, take, Worker, workSpec, type WorkOptions } from './fleet/worker'
import { nativeBudget } from './harness/budget'
import { onTurn } from './harness/seen_turn'
import { absolutePath, variable } from './host'
import { nativeLimit } from './limit'
import { check, checkNoCallback, checkOptions, show, type Checks, type Crossing } from './option'

export { Job, type JobEvent } from './fleet/job'
export type * from './fleet/operation'
export type { JobArtifact, JobAttempt, JobRecord, JobState } from './fleet/record'
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
  servers?: string | readonly string[]
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
  /** Whether the fleet had a job of this id already, which stays as it is. Absent for a refused job. */
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
      /** Whether the queue is paused. */
      isPaused: boolean
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
} satisfies Checks<FleetOptions>

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
    const { servers = variable('SHEEPDOG_NATS'), dir = '.sheepdog/fleet', ...rest } = options
    rest satisfies Crossing<typeof rest, FleetSpec>
    const spec = {
      ...rest,
      servers: addresses(servers),
      dir: absolutePath(dir),
      serverProgram: variable('SHEEPDOG_NATS_SERVER') || undefined,
      path: variable('PATH'),
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
    return new Job(this.#fleet, await settle<string>(this.#fleet.submit(jobText(spec))))
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
  async submitMany(jobs: readonly JobOptions[]): Promise<SubmittedJob[]> {
    if (!Array.isArray(jobs)) throw invalidOption('jobs', `expected an array of jobs, got ${show(jobs)}`)
    const specs: unknown[] = []
    const places: number[] = []
    // Holes are places too, which `map` would pass over.
    const answers: SubmittedJob[] = Array.from(jobs, (job, place) => {
      try {
        specs.push(jobSpec(job))
        places.push(place)
        return { id: '' }
      } catch (error) {
        return { id: job?.id ?? '', error: error as SheepdogError }
      }
    })
    const text = await settle<string>(this.#fleet.submitMany(jobText(specs)))
    for (const [at, { id, known, error }] of (JSON.parse(text) as SubmittedFacts[]).entries()) {
      const place = places[at]!
      if (error) {
        const { code, message, ...facts } = error
        answers[place] = {
          id: jobs[place]!.id ?? '',
          error: new SheepdogError(code as ErrorCode, message, facts),
        }
      } else answers[place] = { id, job: new Job(this.#fleet, id), known }
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

  /**
   * Yields the records of jobs: first those that are over, in the order of their ends; then the others,
   * in the order of their submission. The list is read as it is iterated, so a long one takes no memory.
   * A job that ends meanwhile is listed once.
   *
   * @throws JOB_NOT_FOUND when the fleet does not have the job `after`.
   * @example
   * for await (const { id, title } of fleet.jobs({ state: 'failed', tag: 'nightly', limit: 10 }))
   *   console.log(id, title)
   */
  async *jobs(options: JobListOptions = {}): AsyncGenerator<JobRecord, void, undefined> {
    checkList(options)
    const { limit, after, ...filter } = options
    filter satisfies Crossing<typeof filter, JobFilter>
    const list = (await settle(this.#fleet.list(filterSpec(filter), after, limit))) as NativeJobPages
    for (;;) {
      const page = JSON.parse(await settle<string>(list.next())) as StoredRecord[]
      if (page.length === 0) return
      for (const record of page) yield shown(record)
    }
  }

  /**
   * Yields the record of each job that changes from now on, as it is then: states that a job had between
   * two looks, which are half a second apart, are left out. Removed jobs are not reported. Never ends by
   * itself.
   *
   * @example
   * for await (const { id, state } of fleet.watch({ queue: 'nightly' })) console.log(id, state)
   */
  async *watch(filter: JobFilter = {}): AsyncGenerator<JobRecord, void, undefined> {
    const watch = (await settle(this.#fleet.watch(filterSpec(filter)))) as NativeJobPages
    for (;;)
      for (const record of JSON.parse(await settle<string>(watch.next())) as StoredRecord[])
        yield shown(record)
  }

  /**
   * Gives new attempts to all jobs that fit the filter. Without `state` these are the jobs that failed,
   * died or were cancelled.
   *
   * @example
   * const { jobs } = await fleet.retryMany({ state: 'failed', queue: 'nightly' })
   */
  async retryMany(filter: JobFilter = {}): Promise<{ jobs: number }> {
    return { jobs: await settle<number>(this.#fleet.retryMany(filterSpec(filter))) }
  }

  /** Starts a worker, which runs jobs in this process. */
  async work(options: WorkOptions = {}): Promise<Worker> {
    checkWorkOptions(options)
    const { signal, harness } = options
    const notStarted = 'the worker was not started: its abort signal was aborted'
    throwIfAborted(signal, 'FLEET_CLOSED', notStarted)
    const limits = harness?.limit ? [nativeLimit(harness.limit)] : []
    const budget = harness?.budget && nativeBudget(harness.budget)
    const onJob = (job: NativeJob) => void take(job, options)
    const working = this.#fleet.work(workSpec(options), limits, budget, onJob, onTurn)
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
   * await fleet.prune({ olderThanMs: 7 * 24 * 3600_000, states: ['done'] })
   */
  async prune(options: PruneOptions): Promise<Pruned> {
    return JSON.parse(await settle<string>(this.#fleet.prune(pruneSpec(options)))) as Pruned
  }

  /**
   * Pauses a queue: its jobs wait, and new ones are accepted. Jobs that run go on. Once this resolves, no
   * worker starts a job of the queue until `resume()`. A worker that does not answer is waited for 3 s.
   */
  async pause(queue: string): Promise<void> {
    check.name('queue', queue)
    await settle<void>(this.#fleet.pause(queue))
  }

  /** Resumes a paused queue. A queue that is not paused stays as it is. */
  async resume(queue: string): Promise<void> {
    check.name('queue', queue)
    await settle<boolean>(this.#fleet.resume(queue))
  }

  /**
   * Drains a worker anywhere in the fleet, as its own `close()` does: it starts no more jobs, and closes
   * after its running jobs. Resolves when the worker starts no more jobs.
   *
   * @param worker Name of the worker.
   * @throws INVALID_OPTION when the fleet has no worker of this name; FLEET_UNREACHABLE when the worker
   *   does not answer for a lease and 3 s.
   */
  async drain(worker: string): Promise<void> {
    check.name('worker', worker)
    await settle<void>(this.#fleet.drain(worker))
  }

  /**
   * Submits a job at each time of a cron expression, in place of any earlier schedule of this id. The job
   * of a run has the id `"<schedule id>@<time in UTC>"`, so no run is started twice, whichever process is
   * killed. Every process that called `work()` or `schedule()` starts the runs, until it closes its fleet.
   *
   * @param job The job of each run, without `id` and `at`.
   * @throws INVALID_OPTION for an expression without a future time, and for an unknown time zone.
   * @example
   * await fleet.schedule('nightly', { cron: '0 2 * * *', timeZone: 'Europe/Berlin' }, { handler: 'report' })
   */
  async schedule(id: string, options: ScheduleOptions, job: JobOptions): Promise<void> {
    await settle<void>(this.#fleet.schedule(scheduleSpec(id, options, job)))
  }

  /** Lists the schedules of the fleet, by their ids. */
  async schedules(): Promise<FleetSchedule[]> {
    const all = JSON.parse(await settle<string>(this.#fleet.schedules())) as FleetSchedule[]
    return all.map(shownSchedule)
  }

  /** Removes a schedule. Jobs that it submitted stay. Resolves with whether there was one. */
  async unschedule(id: string): Promise<boolean> {
    check.name('id', id)
    return settle<boolean>(this.#fleet.unschedule(id))
  }

  /**
   * Submits the jobs of schedules when they are due, until the fleet is closed. Every worker does this.
   * Call it in a process without workers, such as the owner of the server.
   */
  async keepSchedules(): Promise<void> {
    await settle<void>(this.#fleet.keepSchedules())
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
    checkNoCallback('close', arguments)
    await settle<void>(this.#fleet.close())
  }

  /** Same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

function addresses(servers: string | readonly string[] | undefined): readonly string[] {
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
