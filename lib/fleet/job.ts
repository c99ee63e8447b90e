import { resolve } from 'node:path'
import type { FollowedEvents, NativeFleet, NativeFollow } from '../../native/native'
import { settle } from '../error'
import type { AgentEvent } from '../harness/event'
import type { TurnResult } from '../harness/result'
import { check, checkOptions } from '../option'
import { errorOf, type JobArtifact, type JobRecord, type StoredRecord } from './record'

/** An event of a job: which attempt it belongs to, and where it stands in the log. */
export type JobEvent = (AgentEvent | { type: string; [field: string]: unknown }) & {
  attempt: number
  /** For `events({ from })`: what comes after this event. */
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

/** A job of a fleet. A handle: dropping it changes nothing. */
export class Job {
  readonly id: string
  readonly #fleet: NativeFleet
  #result: Promise<TurnResult> | undefined

  /** @internal */
  constructor(fleet: NativeFleet, id: string) {
    this.#fleet = fleet
    this.id = id
  }

  /** What is known of it now. JOB_NOT_FOUND when the fleet has forgotten it (30 days after its end). */
  async record(): Promise<JobRecord> {
    return shown(await this.#record())
  }

  /**
   * What the job came to: the TurnResult, or what its handler returned. Rejects with the error that its last attempt ended
   * with, as `Harness.run` would, or with JOB_CANCELLED, JOB_DEAD (its workers were lost too often). Need not be awaited.
   */
  get result(): Promise<TurnResult> {
    if (!this.#result) {
      this.#result = this.#settled()
      // Nobody has to await it: an unawaited failure is not the host's end.
      this.#result.catch(() => {})
    }
    return this.#result
  }

  /**
   * Its events over all attempts, kept ones first, then live; ends with the job. Any number of readers. With `live: false` it
   * ends with what there is now. Where events are missing, because the log was cut by its age or size or could not be written, an
   * event `{ type: 'warning', kind: 'log_gap', message }` says so.
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
   * Cancels it: one that waits never runs, of one that runs the tree is killed. Resolves with the record once it is over; a
   * job that is over stays as it is. Force: cancelled at once, its worker is told that what it does no longer counts.
   */
  async cancel(options: { force?: boolean } = {}): Promise<JobRecord> {
    checkOptions(options, { force: check.boolean })
    return shown(JSON.parse(await settle<string>(this.#fleet.cancel(this.id, options.force ?? false))))
  }

  /** A new budget of attempts for a job that failed, died or was cancelled; the numbers of attempts go on. */
  async retry(): Promise<void> {
    await settle<void>(this.#fleet.retry(this.id))
    this.#result = undefined
  }

  /** What the attempt that counts left. */
  async artifacts(): Promise<JobArtifact[]> {
    return (await this.#record()).artifacts ?? []
  }

  /** Writes an artifact into the file `to`, which is there whole or not at all. */
  async download(path: string, to: string): Promise<void> {
    check.name('path', path)
    check.name('to', to)
    await settle<void>(this.#fleet.download(this.id, path, resolve(to)))
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
