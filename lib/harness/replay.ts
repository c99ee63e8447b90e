import { check, checkOptions } from '../option'
import { callSite } from '../call-site'
import { settle, invalidOptions } from '../error'
import { absolutePath } from '../host'
import { native } from '../native'
import type { AgentEvent } from './event'
import { checkHarnessOptions, type ProviderName } from './request'
import type { AgentErrorKind, TurnResult } from './result'

/** Output of an agent CLI that was recorded. */
export interface Recorded {
  /** Recorded stdout. */
  stdout: string | Uint8Array
  /** Recorded stderr. */
  stderr?: string
  /**
   * Exit status of the CLI; null when a signal ended it. When `signal` is absent too, the end is
   * unknown, and the verdict follows from the agent's own end of turn.
   */
  exitCode?: number | null
  /** Name of the signal that ended the CLI; null when it exited. */
  signal?: string | null
}

/** Events and verdict of a recorded run. */
export interface Replay {
  /** True when the turn succeeded. */
  ok: boolean
  /**
   * Events of the run. When there are more than 64 MiB, the first and the last 32 MiB with a warning
   * between them that says how much is missing.
   */
  events: AgentEvent[]
  /** Result of the turn; partial when `ok` is false. */
  result: TurnResult
  /** Error of the turn; absent when `ok` is true. */
  error?: {
    /** Error code, as `Harness.run` would reject with. */
    code: string
    /** Reason of the failure, where the code is AGENT_FAILED. */
    kind?: AgentErrorKind
    /** Message of the error. */
    message: string
  }
}

/** How a run ended whose output was recorded into files. */
export interface RecordedEnd extends Omit<Recorded, 'stdout' | 'stderr'> {
  /** File with the recorded stderr. Its end is read. */
  stderrFile?: string
}

/** A record that was read from its folder. */
export interface RecordReplay {
  /** Content of `run.json`. */
  start: Record<string, unknown> & {
    /** Kind of the record: a program, a turn, one attempt of a turn, or a session. */
    kind: 'run' | 'turn' | 'attempt' | 'session'
  }
  /** Content of `end.json`; null when there is none. */
  end: Record<string, unknown> | null
  /**
   * Reason why there is no `end.json`. `"running"`: the run goes on. `"host-gone"`: its host process
   * was killed. `"elsewhere"`: its host belongs to another machine, boot or container.
   */
  unfinished: 'running' | 'host-gone' | 'elsewhere' | null
  /**
   * Events and verdict of a turn, computed again from the agent's output; null for a session and for a
   * run of another program.
   */
  turn: Replay | null
}

const recordedChecks = {
  stdout: check.expected(
    'a string or a Uint8Array',
    (value) => typeof value === 'string' || value instanceof Uint8Array,
  ),
  stderr: check.expected('a string', (value) => typeof value === 'string'),
  exitCode: check.expected('an integer or null', (value) => value === null || Number.isInteger(value)),
  signal(path: string, value: unknown) {
    if (value !== null) check.name(path, value)
  },
}

const { exitCode, signal } = recordedChecks
const endChecks = { exitCode, signal, stderrFile: check.name }

/**
 * Gives events and verdict of a run whose stdout is in a file of any length. The file is read piece by
 * piece, off the JavaScript thread. `/dev/stdin` is the stdin of this process.
 *
 * @throws INVALID_OPTION for a file that cannot be read.
 *
 * @example
 * const { ok, events } = await replayFile('codex', 'stdout.jsonl', { exitCode: 0 })
 */
export async function replayFile(provider: ProviderName, file: string, end?: RecordedEnd): Promise<Replay> {
  checkHarnessOptions({ provider })
  check.name('file', file)
  checkOptions(end, endChecks)
  const { stderrFile, exitCode, signal } = end ?? {}
  const said = native.replayFiles(provider, file, stderrFile, exitCode ?? undefined, signal ?? undefined)
  return JSON.parse(await settle<string>(said, callSite())) as Replay
}

/**
 * Gives events and verdict of a recorded run. Recorded text of any kind is accepted.
 *
 * @throws INVALID_OPTION when `recorded` is not a recording.
 */
export function replay(provider: ProviderName, recorded: Recorded): Replay {
  checkHarnessOptions({ provider })
  checkOptions(recorded, recordedChecks, 'recorded')
  if (recorded?.stdout === undefined) throw invalidOptions('recorded.stdout: is missing')
  const { stdout, stderr, exitCode, signal } = recorded
  return JSON.parse(
    native.replayRecording(provider, stdout, stderr ?? '', exitCode ?? undefined, signal ?? undefined),
  ) as Replay
}

/**
 * Reads the folder of a record.
 *
 * @throws INVALID_OPTION when the folder holds no record.
 */
export async function replayRecord(folder: string): Promise<RecordReplay> {
  check.name('folder', folder)
  return JSON.parse(
    await settle<string>(native.replayFolder(absolutePath(folder)), callSite()),
  ) as RecordReplay
}
