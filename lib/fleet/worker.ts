// Workers. The core runs the turns of agents; jobs with a handler are run here, by the user's own code.
import { toJson } from '../json'
import type { NativeJob, NativeWorker, StopCause, TurnSpec, WorkSpec } from '../../native/native'
import { invalidOption, settle, SheepdogError, withPath } from '../error'
import { absolutePath } from '../host'
import { checkLimit } from '../limit'
import { type HarnessOptions, type ProviderName } from '../harness'
import { checkHarnessOptions, toSpec } from '../harness/request'
import { watchJob } from '../observability/job_watch'
import { check, checkNoCallback, checkOptions, optionsOf, show, type Checks, type Crossing } from '../option'
import { inheritance } from '../process/environment'
import { faultOf } from './fault'

/** An attempt at a job, for its handler. */
export interface JobContext {
  /** Id of the job. */
  readonly id: string
  /** Number of the attempt, from 1. */
  readonly attempt: number
  /** The prompt that was submitted. */
  readonly prompt: string
  /** The `data` that was submitted. */
  // oxlint-disable-next-line typescript/no-explicit-any -- it is JSON of the submitter's, whose type the worker alone knows
  readonly data: any
  /** Working directory of the job. Paths of artifacts are relative to it. */
  readonly cwd: string
  /**
   * Aborted when the job was cancelled (the reason is `JOB_CANCELLED`), belongs to another worker now (`JOB_LEASE_LOST`), or when the
   * worker closes (`FLEET_CLOSED`).
   */
  readonly signal: AbortSignal
  /** Adds an event to the job's log. Resolves when there is room for more. You need not wait for it. Rejects when the job is over. */
  emit(event: object): Promise<void>
  /** Keeps a file below `cwd` as it is now. You need not wait for it. */
  artifact(path: string): Promise<void>
}

/**
 * Your own code that runs a job instead of an agent. Its return value is the result of the job; it must
 * be representable as JSON.
 */
export type JobHandler = (job: JobContext) => Promise<unknown> | unknown

/** Options of a worker. */
export interface WorkOptions {
  /**
   * Queues that the worker takes jobs from.
   *
   * @default ["default"]
   */
  queues?: readonly string[]
  /**
   * Number of jobs that the worker runs at once.
   *
   * @default 4
   */
  concurrency?: number
  /**
   * Name of the worker in records.
   *
   * @default a generated name
   */
  name?: string
  /**
   * Default options for the turns of agents. With `provider` they apply only to that agent. The environment that agents
   * inherit is that of this process when the worker starts.
   */
  harness?: Partial<HarnessOptions>
  /**
   * Your own code for jobs with a `handler`, by name.
   *
   * @default none
   */
  handlers?: Record<string, JobHandler>
  /**
   * How long running jobs may go on when the worker closes, in milliseconds. After that they are given
   * to other workers. 0 gives them away at once, Infinity waits for their end.
   *
   * @default 60_000
   */
  drainTimeoutMs?: number
  /** Checkouts for jobs with `git`. */
  git?: {
    /**
     * Folder for the mirrors of the repositories and for the checkouts. Workers with the same folder
     * share it.
     *
     * @default "~/.cache/sheepdog/git"
     */
    dir?: string
    /**
     * Longest silence of a git command, in milliseconds. After that the command is ended.
     *
     * @default 60_000
     */
    idleTimeoutMs?: number
  }
  /** Closes the worker when aborted. */
  signal?: AbortSignal
}

const checks = optionsOf('fleet.work()', {
  queues: check.strings,
  concurrency: check.count,
  name: check.name,
  harness: check.object,
  handlers: check.recordOf(check.function, (path, name) => `${path}[${show(name)}]`),
  drainTimeoutMs: check.timeout,
  git: check.fields({ dir: check.name, idleTimeoutMs: check.timeout }),
  signal: check.signal,
} satisfies Checks<WorkOptions>)

export function checkWorkOptions(options: WorkOptions): void {
  checkOptions(options, checks)
  if (options.queues?.length === 0) throw invalidOption('queues', 'expected at least one queue')
  const { harness } = options
  if (!harness) return
  withPath('harness', () => {
    checkHarnessOptions({ provider: 'codex', ...harness })
    if (harness.limit !== undefined) checkLimit('limit', harness.limit)
  })
}

export function workSpec({ harness = {}, handlers, git, signal: _, ...rest }: WorkOptions): WorkSpec {
  rest satisfies Crossing<typeof rest, WorkSpec>
  return {
    ...rest,
    handlers: Object.keys(handlers ?? {}),
    agent: agentSpecs(harness),
    gitDir: git?.dir === undefined ? undefined : absolutePath(git.dir),
    gitIdleTimeoutMs: git?.idleTimeoutMs,
  }
}

type WorkerAgent = NonNullable<WorkOptions['harness']>

/** The defaults of all agents, or of the one that they name. The jobs' own options go over them, in the core. */
function agentSpecs({ provider, inheritEnv = true, cwd, ...rest }: WorkerAgent): TurnSpec {
  const spec = toSpec('', { ...rest, cwd, provider: provider ?? ('' as ProviderName) }, true)
  const agent = {
    ...spec.agent,
    // Without one, an agent works where this process is when its job begins.
    cwd: cwd && absolutePath(spec.agent.cwd!),
    // A job may inherit more than the default.
    ...inheritance(true),
    inheritOnly: inheritEnv === true ? undefined : inheritEnv || [],
  }
  return { ...spec, agent }
}

/** @internal What was submitted, for a handler. */
export interface SubmittedSpec {
  handler?: string
  queue?: string
  prompt: string
  data?: unknown
}

/** @internal Answers a job, once; never throws. */
export async function take(job: NativeJob, options: WorkOptions): Promise<void> {
  let end: ReturnType<typeof watchJob>
  try {
    const spec = JSON.parse(job.spec) as SubmittedSpec
    end = watchJob(spec)
    const result = await call(job, spec, options.handlers?.[spec.handler ?? ''])
    job.finish(result === undefined ? undefined : toJson('result', result))
    end?.(undefined)
  } catch (error) {
    const { code, message, facts } = faultOf(error)
    job.fail(code, message, facts)
    end?.(code)
  }
}

async function call(job: NativeJob, spec: SubmittedSpec, handler: JobHandler | undefined): Promise<unknown> {
  if (!handler) throw invalidOption('handler', `this worker has no handler named ${show(spec.handler)}`)
  const abort = new AbortController()
  void settle<StopCause | null | undefined>(job.stopped()).then((cause) => {
    if (!cause) return
    const [code, why] = stopReasons[cause]
    abort.abort(new SheepdogError(code, `job ${job.id} must stop: ${why}`, { jobId: job.id }))
  })
  return handler({
    id: job.id,
    attempt: job.attempt,
    prompt: spec.prompt,
    data: spec.data,
    cwd: job.cwd,
    signal: abort.signal,
    emit: (event) =>
      toldToWaiters(async () => {
        check.object('event', event)
        await settle<void>(job.emit(toJson('event', event)))
      }),
    artifact: (path) =>
      toldToWaiters(async () => {
        check.name('path', path)
        await settle<void>(job.artifact(path))
      }),
  })
}

const stopReasons = {
  cancelled: ['JOB_CANCELLED', 'it was cancelled'],
  lost: ['JOB_LEASE_LOST', 'another worker has it now'],
  closing: ['FLEET_CLOSED', 'this worker closes, and another one gets it'],
} as const

/** A promise that nobody has to wait for: its error is no unhandled rejection. */
function toldToWaiters(work: () => Promise<void>): Promise<void> {
  const done = work()
  done.catch(() => {})
  return done
}

/** A worker of a fleet. It keeps this process alive until it is closed. */
export class Worker implements AsyncDisposable {
  readonly #worker: NativeWorker
  /** Name of the worker in records. */
  readonly name: string
  /** Resolves when the worker is closed. */
  readonly closed: Promise<void>

  /** @internal */
  constructor(worker: NativeWorker) {
    this.#worker = worker
    this.name = worker.name
    this.closed = settle<void>(worker.closed())
    this.closed.catch(() => {})
  }

  /**
   * Starts no more jobs and waits for those that run, at most `drainTimeoutMs`. After that they are
   * given to other workers.
   */
  async close(): Promise<void> {
    checkNoCallback('close', arguments)
    await settle<void>(this.#worker.close())
  }

  /** Same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}
