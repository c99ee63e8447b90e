import type { ErrorCode } from '../error'
import { SheepdogError } from '../error'
import type { AgentUsage } from '../harness/result'

/** Where a job stands. */
export type JobState = 'queued' | 'running' | 'done' | 'failed' | 'cancelled' | 'dead'

/** What is known of a job. Times are epoch milliseconds. */
export interface JobRecord {
  id: string
  queue: string
  /** 0 to 9; 9 goes first. */
  priority: number
  provider?: string
  handler?: string
  state: JobState
  /** How often it was begun, over all budgets; the number of its present or last attempt. */
  attempt: number
  /** The budget, and how much of it is used. */
  attempts: number
  spent: number
  /** The worker of the present or last attempt. */
  worker?: string
  /** What the handler returned, or the TurnResult. A long one is left out here: `job.result` has it. */
  result?: unknown
  /** Why the last attempt failed; of a job that waits for its next attempt too. */
  error?: { code: string; message: string; [fact: string]: unknown }
  /** Why some artifacts of a job that is done are missing: the store had no room for them. */
  artifactsError?: { code: string; message: string; [fact: string]: unknown }
  /** What all attempts used together, lost ones included; of a job of an agent that tells it. */
  usage?: AgentUsage
  /** The agent's session. */
  sessionId?: string
  submittedAt: number
  startedAt?: number
  endedAt?: number
  /** A job that waits is not begun before. */
  notBefore?: number
}

/** A file that the attempt left. */
export interface JobArtifact {
  /** Below the job's working directory. */
  path: string
  bytes: number
  /** Hexadecimal. */
  sha256: string
}

/** @internal As it comes from the core. */
export interface StoredRecord extends JobRecord {
  artifacts?: JobArtifact[]
  /** Where a result is that is too long for the record. */
  resultObject?: string
}

/** @internal The error that a job ended with, its code and fields as they were on the worker. */
export function errorOf(record: JobRecord): Error {
  const { code, message, ...facts } = record.error ?? {
    code: 'JOB_DEAD',
    message: `job ${record.id} is ${record.state}`,
  }
  const last = facts.lastError as { code: string; message: string } | undefined
  const cause = last && new SheepdogError(last.code as ErrorCode, last.message)
  return new SheepdogError(code as ErrorCode, message, { ...facts, jobId: record.id } as object, cause)
}
