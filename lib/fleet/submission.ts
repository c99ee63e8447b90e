// What is submitted: a turn's options, and where and when it is to run.
import { invalidOption } from '../error'
import type { ProviderName, TurnOptions } from '../harness'
import { checkHarnessOptions, checkTurnOptions, schemaText } from '../harness/request'
import { check, checkOptions, show } from '../option'
import { absolute } from '../process'

/** A repository that a job works in. */
export interface JobSource {
  /**
   * https://, http://, ssh://, git://, file://, user@host:path, or an absolute path of the worker's machine. A login in it is
   * stored on the server and told to its host alone; without one the worker's own git has to have access.
   */
  url: string
  /** A branch, a tag, any other ref of the remote, or a whole commit id. Default: the remote's HEAD. */
  ref?: string
  /** The checkout of a job that failed stays on its worker's disk; the error's `checkout` says where. Default false. */
  keepOnFailure?: boolean
}

interface JobPlace {
  /** The prompt; for a handler whatever it takes it for. */
  prompt?: string
  /** Default "default". */
  queue?: string
  /** 0 to 9; 9 goes first. Default 4. */
  priority?: number
  /** Default: a new one that sorts by its time. The same id again is the same job. */
  id?: string
  /** Jobs of one key: `keyLimit` of them run at once. */
  key?: string
  /** Default 1. */
  keyLimit?: number
  /** Not before. */
  at?: Date
  /** Default 3. */
  attempts?: number
  /** It works in a checkout of its own, on whichever machine its worker is, instead of in `cwd`. */
  git?: JobSource
  /** Globs below the working directory: files that match when the attempt ends are kept. */
  artifacts?: string[]
  /** For the handler; as JSON has it. */
  data?: unknown
}

/**
 * A job: a turn of an agent (`provider`, and the turn's options), or code of the worker's own (`handler`). `signal` ends the
 * submitting alone. What is given here is stored on the server, `env` and `redact` too.
 */
export type JobOptions = TurnOptions &
  JobPlace &
  (
    | { provider: ProviderName; prompt: string; handler?: undefined }
    | { handler: string; provider?: undefined }
  )

const checks = {
  prompt: check.string,
  queue: check.name,
  priority(path: string, value: unknown) {
    if (!Number.isInteger(value) || (value as number) < 0 || (value as number) > 9)
      throw invalidOption(path, `expected an integer from 0 to 9, got ${show(value)}`)
  },
  id: check.name,
  key: check.name,
  keyLimit: check.count,
  at(path: string, value: unknown) {
    if (!(value instanceof Date) || Number.isNaN(value.getTime()))
      throw invalidOption(path, `expected a Date, got ${show(value)}`)
  },
  attempts: check.count,
  artifacts: check.strings,
  handler: check.name,
  git(path: string, value: unknown) {
    check.object(path, value)
    checkOptions(value as object, { url: check.name, ref: check.name, keepOnFailure: check.boolean }, path)
    if ((value as JobSource).url === undefined) throw invalidOption(`${path}.url`, 'expected an address')
  },
}

/** @internal The job as the core takes it, checked. */
export function jobSpec(job: JobOptions): Record<string, unknown> {
  check.object('job', job)
  const {
    provider,
    handler,
    prompt = '',
    queue,
    priority,
    id,
    key,
    keyLimit,
    at,
    attempts,
    artifacts,
    data,
    git,
    signal,
    cwd,
    ...turn
  } = job
  checkOptions({ prompt, queue, priority, id, key, keyLimit, at, attempts, artifacts, handler, git }, checks)
  if (provider !== undefined) checkHarnessOptions({ provider })
  checkTurnOptions({ ...turn, cwd, signal })
  return {
    provider,
    handler,
    prompt,
    queue,
    priority,
    id,
    key,
    keyLimit,
    at: at?.getTime(),
    attempts,
    artifacts,
    data: plain(data),
    // Left out it is the worker's own: the submitter's folder means nothing on another machine.
    cwd: cwd === undefined ? undefined : absolute(cwd),
    git,
    afterTools: turn.retry?.afterTools,
    options: turnOptions(turn),
  }
}

/** A turn's options as they travel. */
function turnOptions({ env, schema, ...rest }: TurnOptions): Record<string, unknown> {
  const live = Object.entries(rest).find(([, value]) => typeof value === 'object' && isLive(value as object))
  if (live) throw invalidOption(live[0], "can't travel to another process: give it to the worker's harness")
  return {
    ...rest,
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
  if (data === undefined) return undefined
  try {
    const text = JSON.stringify(data)
    if (text !== undefined) return JSON.parse(text)
  } catch (error) {
    throw invalidOption('data', `can't be written as JSON: ${(error as Error).message}`)
  }
  throw invalidOption('data', `can't be written as JSON, got ${show(data)}`)
}
