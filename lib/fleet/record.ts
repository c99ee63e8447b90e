import type { AgentUsage } from '../harness/result'
import { errorOfFault } from './fault'

/**
 * State of a job. `"dead"`: its workers were lost as often as it has attempts. A record that a newer
 * version wrote may have a state that is not in this list.
 */
export type JobState = 'queued' | 'running' | 'done' | 'failed' | 'cancelled' | 'dead'

/** An attempt at a job. Times are milliseconds since 1970. */
export interface JobAttempt {
  /** Number of the attempt. */
  attempt: number
  /** Name of the worker. */
  worker: string
  /** Start of the attempt. */
  startedAt: number
  /** End of the attempt, or the time at which its loss was noticed. */
  endedAt?: number
  /** Tokens and money of this attempt. Absent where the agent tells none. */
  usage?: AgentUsage
  /**
   * Error code of an attempt that failed or was lost; `"drained"` for one that its closing worker gave to
   * another worker. Absent for a success.
   */
  reason?: string
  /** Error of an attempt that failed or was lost, with the first 500 bytes of its message. */
  error?: {
    /** Error code. */
    code: string
    /** Message of the error. */
    message: string
  }
}

/** State of a job and facts about it. Times are milliseconds since 1970. */
export interface JobRecord {
  /** Id of the job. */
  id: string
  /** Queue of the job. */
  queue: string
  /** Priority from 0 to 9; 9 goes first. */
  priority: number
  /** Agent CLI that runs the job; absent for a job with a `handler`. */
  provider?: string
  /** Name of the handler that runs the job; absent for a job with a `provider`. */
  handler?: string
  /** Title of the job. */
  title?: string
  /** Tags of the job. */
  tags?: string[]
  /** The first 1,000 characters of the prompt. */
  prompt?: string
  /** `data` of the job, if its JSON has at most 2 KiB. */
  data?: unknown
  /** State of the job. */
  state: JobState
  /** Number of the present or last attempt, counted over all calls of `retry()`. */
  attempt: number
  /** The attempts so far, at most the last 50. */
  attempts: JobAttempt[]
  /** Number of attempts that the job may use. */
  maxAttempts: number
  /** Number of these attempts that are used up. */
  spent: number
  /** Name of the worker of the present or last attempt. */
  worker?: string
  /**
   * The value that the handler returned, or the TurnResult. A long result is left out here;
   * `job.result` has it.
   */
  result?: unknown
  /** Error of the last attempt, also while the job waits for its next attempt. */
  error?: {
    /** Error code. */
    code: string
    /** Message of the error. */
    message: string
    [fact: string]: unknown
  }
  /** Reason why some artifacts of a finished job are missing: the store or the record had no room. */
  artifactsError?: {
    /** Error code. */
    code: string
    /** Message of the error. */
    message: string
    [fact: string]: unknown
  }
  /** Tokens and money of all attempts together, lost ones included. Absent where the agent tells none. */
  usage?: AgentUsage
  /** Id of the agent's session. */
  sessionId?: string
  /** Time of submission. */
  submittedAt: number
  /** Start of the present or last attempt. */
  startedAt?: number
  /** End of the job. */
  endedAt?: number
  /** Earliest time of the next attempt, while the job waits. */
  notBefore?: number
}

/** A file that an attempt left. */
export interface JobArtifact {
  /** Path below the job's working directory. */
  path: string
  /** Size in bytes. */
  bytes: number
  /** SHA-256 digest in hexadecimal. */
  sha256: string
}

/** @internal As it comes from the core. */
export interface StoredRecord extends JobRecord {
  artifacts?: JobArtifact[]
  /** Name of the object that holds a result too long for the record. */
  resultObject?: string
}

/** @internal The error that a job ended with, its code and fields as they were on the worker. */
export function errorOf(record: JobRecord): Error {
  const fault = record.error ?? { code: 'JOB_DEAD', message: `job ${record.id} is ${record.state}` }
  return errorOfFault(fault, record.id)
}
