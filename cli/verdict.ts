// How a watched run ended: as an exit status, as a line for people, as a line of JSON. PURE.
import type { RunResult, SheepdogError } from '../lib/index'
import { basename } from 'node:path'
import { usageStatus } from './arguments'
import { showBytes, showCount, showDuration } from './figure'
import { signalStatus, type Interrupt } from './interrupt'
import { inCommandWords } from './words'

/** Everything that is known of the end. */
export interface Ended {
  command: string
  /** Absent when nothing was started. */
  result?: RunResult
  /** Absent when the program ended by itself. */
  error?: SheepdogError
  /** The signal that asked us to end. */
  interrupt?: Interrupt
  /** Our own stdout or stderr could not be written any more. */
  broken?: NodeJS.ErrnoException
  brokenQuietly?: boolean
  lines: number
}

const statusOfCode: Record<string, number> = {
  PROCESS_TIMED_OUT: 124,
  PROCESS_IDLE: 125,
  PROCESS_NOT_EXECUTABLE: 126,
  PROCESS_ARGUMENT_TOO_LONG: 126,
  PROCESS_NOT_FOUND: 127,
  INVALID_OPTION: usageStatus,
}

/** The program's own status; 124 timeout, 125 idle, 126 and 127 as a shell does, 128+N for a signal. */
export function exitStatus({ result, error, interrupt, broken, brokenQuietly }: Ended): number {
  if (error?.code === 'PROCESS_KILLED') {
    if (interrupt) return signalStatus(interrupt)
    // A shell shows this status for a program that writes to a reader that is gone.
    if (broken && brokenQuietly) return signalStatus('SIGPIPE')
  }
  if (error) return statusOfCode[error.code] ?? 1
  if (broken && !brokenQuietly) return 1
  return result ? (result.exitCode ?? signalStatus(result.signal)) : 1
}

/** One line about the end for a person; undefined where the program's own output says it all. */
export function describeEnd(ended: Ended): string | undefined {
  const { result, error, interrupt, broken, brokenQuietly } = ended
  const name = basename(ended.command)
  const strays = result?.straysKilled ?? 0
  const also = left(strays)
  if (broken && !brokenQuietly)
    return `output could not be written (${broken.code ?? broken.message}): ${name} was stopped${also}`
  if (broken) return undefined
  switch (error?.code) {
    case undefined:
      break
    case 'PROCESS_IDLE':
      return `${name} was silent for ${showDuration(Number(error?.idleTimeoutMs))} and was killed (--idle sets the limit)${buffered(error.message)}${also}`
    case 'PROCESS_TIMED_OUT':
      return `${name} was still running after ${showDuration(Number(error?.timeoutMs))} and was stopped (--timeout sets the limit)${also}`
    case 'PROCESS_KILLED':
      return result
        ? `${name} was stopped by ${interrupt ?? 'request'} after ${showDuration(result.durationMs)}${also}`
        : `${name} was not started: ${interrupt ?? 'a request'} came first`
    default:
      return error && inCommandWords(error.message)
  }
  if (result?.signal)
    return `${name} was ended by ${result.signal} after ${showDuration(result.durationMs)}${also}`
  return strays > 0 ? `${name} exited with ${result?.exitCode ?? 'no status'}${also}` : undefined
}

/** The likely cause where nothing was printed, in the words of the command. */
function buffered(message: string): string {
  return message.includes('has printed nothing')
    ? '; it has printed nothing: many programs hold their output back without a terminal, --pty gives them one'
    : ''
}

function left(strays: number): string {
  return strays > 0
    ? `; ${showCount(strays, 'process', 'processes')} that it left behind ${strays === 1 ? 'was' : 'were'} killed`
    : ''
}

/** The closing words on a terminal, where nothing else is to be said. */
export function describeExit({ command, result, lines }: Ended): string {
  const bytes = (result?.stdoutBytes ?? 0) + (result?.stderrBytes ?? 0)
  const after = `after ${showDuration(result?.durationMs ?? 0)}`
  return `${basename(command)} exited with ${result?.exitCode} ${after} (${showCount(lines, 'line')}, ${showBytes(bytes)})`
}

/** The closing line of `--json`: the result without the texts, which the lines before have brought already. */
export function endRecord(ended: Ended): Record<string, unknown> {
  const { stdout: _stdout, stderr: _stderr, ...facts } = ended.result ?? {}
  return {
    type: 'result',
    exitStatus: exitStatus(ended),
    error: ended.error && { code: ended.error.code, message: ended.error.message },
    ...facts,
  }
}
