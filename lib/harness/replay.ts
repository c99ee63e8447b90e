import { check, checkOptions, show } from '../option'
import { callSite } from '../call-site'
import { SheepdogError, invalidOption, settle } from '../error'
import { native } from '../native'
import type { AgentEvent } from './event'
import { checkHarnessOptions, type ProviderName } from './request'
import type { AgentErrorKind, TurnResult } from './result'

/** A recorded run. */
export interface Recorded {
  stdout: string | Uint8Array
  stderr?: string
  /** With `signal` left out too, the end is unknown and the agent's own end of turn alone decides. */
  exitCode?: number | null
  signal?: string | null
}

/** What a recording says. */
export interface Replay {
  ok: boolean
  /** Of more than 64 MiB the first and the last 32, and a warning between that says what is missing. */
  events: AgentEvent[]
  /** Partial when not ok. */
  result: TurnResult
  error?: { code: string; kind?: AgentErrorKind; message: string }
}

/** How a run that was recorded into files ended. */
export interface RecordedEnd extends Omit<Recorded, 'stdout' | 'stderr'> {
  /** What it printed on stderr; the end of it is looked at. */
  stderrFile?: string
}

const recordedChecks = {
  stdout(path: string, value: unknown) {
    if (typeof value !== 'string' && !(value instanceof Uint8Array)) {
      throw invalidOption(path, `expected a string or a Uint8Array, got ${show(value)}`)
    }
  },
  stderr(path: string, value: unknown) {
    if (typeof value !== 'string') throw invalidOption(path, `expected a string, got ${show(value)}`)
  },
  exitCode(path: string, value: unknown) {
    if (value !== null && !Number.isInteger(value))
      throw invalidOption(path, `expected an integer or null, got ${show(value)}`)
  },
  signal(path: string, value: unknown) {
    if (value !== null) check.name(path, value)
  },
}

const { exitCode, signal } = recordedChecks
const endChecks = { exitCode, signal, stderrFile: check.name }

/**
 * Events and verdict of a run whose stdout stands in a file, however long that is: it is read piece by piece, off the JavaScript
 * thread. `/dev/stdin` is this process's own input. INVALID_OPTION for a file that can't be read.
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

/** Events and verdict of a recorded run. Never throws for what is recorded; INVALID_OPTION for what is no recording. */
export function replay(provider: ProviderName, recorded: Recorded): Replay {
  checkHarnessOptions({ provider })
  checkOptions(recorded, recordedChecks, 'recorded')
  if (recorded?.stdout === undefined) throw new SheepdogError('INVALID_OPTION', 'recorded.stdout: is missing')
  const { stdout, stderr, exitCode, signal } = recorded
  return JSON.parse(
    native.replayRecording(provider, stdout, stderr ?? '', exitCode ?? undefined, signal ?? undefined),
  ) as Replay
}
