// A submission: a turn's options, and where and when it is to run.
import { finite, toJson } from '../json'
import { invalidOption } from '../error'
import type { HarnessOptions, TurnOptions } from '../harness'
import { agentName } from '../harness/agent_program'
import { checkNoCheckout } from '../harness/checkout'
import { checkHarnessOptions, checkTurnOptions, schemaText } from '../harness/request'
import { absolutePath } from '../host'
import { check, checkOptions, optionsOf, type Check, type Checks } from '../option'
import { folderPath } from '../process/request'
import { sandboxSpec } from '../sandbox'

/** A git repository in which a job works. */
export interface JobSource {
  /**
   * Address of the repository: https://, http://, ssh://, git://, file://, user@host:path, or an
   * absolute path on the worker's machine. A login in the address is stored on the server and sent only
   * to that host. Without one, the worker's git needs access of its own.
   */
  url: string
  /**
   * A branch, a tag, another ref of the remote, or a full commit id.
   *
   * @default the remote's HEAD
   */
  ref?: string
  /**
   * Keep the checkout of a failed job on its worker's disk; `checkout` of the error is its path.
   *
   * @default false
   */
  keepOnFailure?: boolean
}

interface JobPlace {
  /** The prompt. With a `handler` its meaning is up to the handler. */
  prompt?: string
  /**
   * Title of the job in lists, at most 1,000 bytes.
   *
   * @default none
   */
  title?: string
  /**
   * Tags of the job, by which `fleet.jobs()` finds it. At most 50.
   *
   * @default []
   */
  tags?: readonly string[]
  /**
   * Queue of the job. A worker names the queues that it takes jobs from.
   *
   * @default "default"
   */
  queue?: string
  /**
   * Priority from 0 to 9; 9 goes first.
   *
   * @default 4
   */
  priority?: number
  /**
   * Id of the job. Submitting the same id again gives the same job.
   *
   * @default a new id that sorts by time
   */
  id?: string
  /** Jobs with the same key share a limit: at most `keyLimit` of them run at once. */
  key?: string
  /**
   * How many jobs with the same `key` run at once.
   *
   * @default 1
   */
  keyLimit?: number
  /**
   * Earliest start of the job, by the worker's clock.
   *
   * @default now
   */
  at?: Date
  /**
   * How often the job is attempted.
   *
   * @default 3
   * @throws JOB_DEAD when its workers were lost that often.
   */
  attempts?: number
  /**
   * Repository for the job: each attempt gets a checkout of its own, on the machine of its worker,
   * instead of `cwd`.
   */
  git?: JobSource
  /**
   * Globs below the working directory, in gitignore syntax. Files that match when the attempt ends are
   * kept.
   *
   * @default []
   */
  artifacts?: readonly string[]
  /** Data for the handler; it must be representable as JSON. */
  data?: unknown
}

/**
 * A job: a turn of an agent (`provider` and the options of a turn), or a call of the worker's own code
 * (`handler`). `signal` ends only the submission. All options are stored on the server, including `env`
 * and `redact`.
 */
export type JobOptions = Omit<TurnOptions, 'budget' | 'changes' | 'worktree'> &
  JobPlace &
  (
    | { provider: HarnessOptions['provider']; prompt: string; handler?: undefined }
    | { handler: string; provider?: undefined }
  )

const checks = optionsOf('fleet.submit()', {
  prompt: check.string,
  title: check.name,
  tags: check.strings,
  queue: check.name,
  priority: check.integer(0, 9),
  id: check.name,
  key: check.name,
  keyLimit: check.count,
  at: check.date,
  attempts: check.count,
  artifacts: check.strings,
  handler: check.name,
  git(path: string, value: unknown) {
    check.fields({ url: check.name, ref: check.name, keepOnFailure: check.boolean })(path, value)
    if ((value as JobSource).url === undefined) throw invalidOption(`${path}.url`, 'expected an address')
  },
} satisfies Omit<Checks<JobPlace>, 'data'> & Record<'handler', Check>)

/** @internal The job as the core takes it, checked. */
export function jobSpec(job: JobOptions & TurnOptions): Record<string, unknown> {
  check.object('job', job)
  const { provider, data, signal, cwd, ...rest } = job
  const isOwn = ([name]: [string, unknown]) => Object.hasOwn(checks, name)
  const own = Object.fromEntries(Object.entries(rest).filter(isOwn))
  const turn: TurnOptions = Object.fromEntries(Object.entries(rest).filter((entry) => !isOwn(entry)))
  checkOptions(own, checks)
  if (provider !== undefined) checkHarnessOptions({ provider, sandbox: turn.sandbox })
  checkTurnOptions({ ...turn, cwd, signal })
  checkNoCheckout(turn)
  return {
    ...own,
    prompt: job.prompt ?? '',
    provider: provider && agentName(provider),
    at: job.at && Math.max(0, job.at.getTime()),
    data: plain(data),
    // Left out it is the worker's own: the submitter's folder means nothing on another machine.
    cwd: cwd === undefined ? undefined : absolutePath(folderPath(cwd)!),
    afterTools: turn.retry?.afterTools,
    options: { ...turnOptions(turn), ...(typeof provider === 'object' && { agent: provider }) },
  }
}

/** @internal Jobs as they cross to the core. */
export function jobText(specs: unknown): string {
  return toJson('job', specs, finite)
}

/** A turn's options as they travel. */
function turnOptions({ env, schema, ...rest }: TurnOptions): Record<string, unknown> {
  const live = Object.entries(rest).find(([, value]) => typeof value === 'object' && isLive(value as object))
  if (live)
    throw invalidOption(live[0], "cannot be sent to another process: set it in the worker's `harness`")
  const { sandbox } = rest
  const network = typeof sandbox === 'object' ? sandbox.network : undefined
  if (typeof network === 'object' && 'secrets' in network && network.secrets !== undefined)
    throw invalidOption(
      'sandbox.network.secrets',
      "cannot be part of a job, which is stored: set them in the worker's `harness`",
    )
  return {
    ...rest,
    // `"provider"` is one host of the list where it crosses.
    ...(typeof sandbox === 'object' && { sandbox: sandboxSpec(sandbox) }),
    env: env && Object.fromEntries(Object.entries(env).map(([name, value]) => [name, value ?? null])),
    schema: schema && JSON.parse(schemaText(schema)),
  }
}

/** A shared object, such as a budget: what is not plain data. */
function isLive(value: object): boolean {
  const prototype = Object.getPrototypeOf(value)
  return !Array.isArray(value) && prototype !== Object.prototype && prototype !== null
}

function plain(data: unknown): unknown {
  return data === undefined ? undefined : JSON.parse(toJson('data', data))
}
