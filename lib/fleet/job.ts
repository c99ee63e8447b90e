import type { FollowedEvents, NativeFleet, NativeFollow } from '../../native/native'
import { settle, type SheepdogError } from '../error'
import { absolutePath } from '../host'
import type { AgentEvent } from '../harness/event'
import type { TurnResult } from '../harness/result'
import { check, checkOptions } from '../option'
import { errorOf, type JobArtifact, type JobRecord, type StoredRecord } from './record'

/** An event of a job, with the number of its attempt and its place in the log. */
export type JobEvent = (AgentEvent | { type: string; [field: string]: unknown }) & {
  /** Number of the attempt. */
  attempt: number
  /** Place in the log. `events({ from: cursor })` continues after this event. */
  cursor: string
}

/** @internal An event, and when the server stored it (epoch milliseconds, its clock). */
export interface TimedEvent {
  event: JobEvent
  attempt: number
  cursor: string
  storedAtMs: number
  bytes: number
}

const timing = Symbol('timing')

/** @internal The events of a job with their times, for `sheepdog view`. */
export function timed(job: Job): AsyncGenerator<TimedEvent, void, undefined> {
  return job[timing]()
}

/** A handle of a job in a fleet. Dropping the handle does not affect the job. */
export class Job {
  /** Id of the job. */
  readonly id: string
  readonly #fleet: NativeFleet
  #result: Promise<TurnResult> | undefined

  /** @internal */
  constructor(fleet: NativeFleet, id: string) {
    this.#fleet = fleet
    this.id = id
  }

  /**
   * Reads the present state of the job.
   *
   * @throws JOB_NOT_FOUND when the fleet no longer has the job (30 days after its end).
   */
  async record(): Promise<JobRecord> {
    return shown(await this.#record())
  }

  /**
   * Result of the job: the TurnResult, or the value that its handler returned. You need not await it. Read
   * it again after an error of the fleet, such as FLEET_UNREACHABLE.
   *
   * @throws The error of the last attempt, as `Harness.run` would; JOB_CANCELLED; JOB_DEAD when its
   *   workers were lost too often.
   */
  get result(): Promise<TurnResult> {
    if (!this.#result) {
      const result = (this.#result = this.#settled())
      // Nobody has to await it: an unawaited failure is not the host's end.
      result.catch((error: SheepdogError) => {
        // Such an error kept the result away, and the job may have come to another one.
        if (this.#result === result && error.code?.startsWith('FLEET_')) this.#result = undefined
      })
    }
    return this.#result
  }

  /**
   * Yields the events of all attempts: first those that are stored, then live ones. The loop ends with
   * the job. Any number of readers is possible. Where events are missing, an event
   * `{ type: 'warning', kind: 'log_gap', message }` says so: the log was cut by its age or size, or could
   * not be written.
   *
   * @param options.from The `cursor` of an event; begin after it. Default: the first event.
   * @param options.live `false`: stop at the end of the stored events. Default: true.
   */
  async *events(options: { from?: string; live?: boolean } = {}): AsyncGenerator<JobEvent, void, undefined> {
    checkOptions(options, { from: check.name, live: check.boolean })
    for await (const { event, attempt, cursor } of this.#events(options)) yield { ...event, attempt, cursor }
  }

  /** @internal */
  [timing](): AsyncGenerator<TimedEvent, void, undefined> {
    return this.#events({})
  }

  async *#events({ from, live = true }: { from?: string; live?: boolean }): AsyncGenerator<TimedEvent> {
    const follow = (await settle<NativeFollow>(this.#fleet.follow(this.id, from, live))) as NativeFollow
    try {
      for (;;) {
        const batch = await settle<FollowedEvents | null>(follow.next())
        if (!batch) return
        const { attempt, storedAtMs } = batch
        let line = batch.firstLine
        for (const text of batch.lines.split('\n')) {
          const event = JSON.parse(text) as JobEvent
          yield { event, attempt, cursor: `${batch.cursor}${line++}`, storedAtMs, bytes: text.length }
        }
      }
    } finally {
      // The server keeps something for each reader that waits.
      void settle<void>(follow.close()).catch(() => {})
    }
  }

  /**
   * Cancels the job. A job that waits never runs; of a job that runs the process tree is killed.
   * Resolves with the record when the job is over. A job that is over stays as it is.
   *
   * @param options.force Cancel at once, without waiting for the worker. The worker's result no longer
   *   counts.
   */
  async cancel(options: { force?: boolean } = {}): Promise<JobRecord> {
    checkOptions(options, { force: check.boolean })
    return shown(JSON.parse(await settle<string>(this.#fleet.cancel(this.id, options.force ?? false))))
  }

  /** Gives a job that failed, died or was cancelled new attempts. The numbers of its attempts go on. */
  async retry(): Promise<void> {
    await settle<void>(this.#fleet.retry(this.id))
    this.#result = undefined
  }

  /** Lists the files of the attempt that counts. */
  async artifacts(): Promise<JobArtifact[]> {
    return (await this.#record()).artifacts ?? []
  }

  /** Writes an artifact into the file `to`. The file is either complete or absent. */
  async download(path: string, to: string): Promise<void> {
    check.name('path', path)
    check.name('to', to)
    await settle<void>(this.#fleet.download(this.id, path, absolutePath(to)))
  }

  async #record(): Promise<StoredRecord> {
    return JSON.parse(await settle<string>(this.#fleet.record(this.id))) as StoredRecord
  }

  async #settled(): Promise<TurnResult> {
    const record = JSON.parse(await settle<string>(this.#fleet.settled(this.id))) as StoredRecord
    if (record.state !== 'done') throw errorOf(record)
    if (record.resultObject === undefined) return record.result as TurnResult
    return JSON.parse(await settle<string>(this.#fleet.resultObject(record.resultObject))) as TurnResult
  }
}

/** @internal The record as users see it. */
export function shown(record: StoredRecord): JobRecord {
  const { artifacts: _, resultObject: __, ...rest } = record
  return rest
}
