// The result of a run: types alone.
import type { SandboxReport } from '../sandbox'

/**
 * How a program ended. Durations are milliseconds since the start, measured by a monotonic clock. With
 * `encoding: "buffer"`, `stdout` and `stderr` are bytes.
 */
export interface RunResult<Output = string> {
  /** The program as it was given. */
  command: string
  /** The arguments as they were given. */
  args: string[]
  /** Process id of the program. */
  pid: number
  /** True when the exit status is 0. */
  ok: boolean
  /** Exit status of the program; null when a signal ended it. */
  exitCode: number | null
  /** Name of the signal that ended the program, for example `"SIGTERM"`; null when it exited. */
  signal: string | null
  /** Standard output, up to `maxOutputBytes`. */
  stdout: Output
  /** Standard error output, up to `maxOutputBytes`. */
  stderr: Output
  /** Bytes that were printed to stdout in all, kept or not. */
  stdoutBytes: number
  /** Bytes that were printed to stderr in all, kept or not. */
  stderrBytes: number
  /** True when `stdout` or `stderr` is not complete because of `maxOutputBytes`. */
  truncated: boolean
  /** Milliseconds from the start to the exit of the program. */
  durationMs: number
  /** Milliseconds from the start to the first output; null when nothing was printed. */
  firstOutputMs: number | null
  /** Milliseconds from the start to the last output; null when nothing was printed. */
  lastOutputMs: number | null
  /** True when other processes held stdout or stderr open for longer than `drainMs`. */
  pipesHeldOpen: boolean
  /** Number of descendants that outlived the program and were killed. */
  straysKilled: number
  /** Number of descendants that could not be killed because they run as another user (setuid). */
  straysLeft: number
  /**
   * How the process tree was held together. `"guard"`: by the guard process. `"guard+cgroup"`: by the
   * guard and a cgroup. `"pidns"`: by a PID namespace. `"group"`: by a process group only. `"job"`: by a job of Windows, which is
   * unsupported yet.
   */
  containment: 'guard' | 'guard+cgroup' | 'pidns' | 'group' | 'job'
  /** Resources that the program used, together with the descendants that it waited for. */
  usage: {
    /** Processor time in user mode, in milliseconds. */
    userMs: number
    /** Processor time in the kernel, in milliseconds. */
    systemMs: number
    /** Largest resident memory of a single process, in bytes. */
    maxRssBytes: number
  }
  /** Number of runs that it took. Only with the option `retry`. */
  attempts?: number
  /** The record of this run. Only with the option `record`. */
  record?: RecordFacts
  /** Limits that the kernel enforced, when `sandbox` was given. */
  sandbox?: SandboxReport
}

/** The result of a program of which no byte ran. */
export function unstarted<Output>(
  command: string,
  args: readonly string[],
  isText: boolean,
): RunResult<Output> {
  const nothing = () => (isText ? '' : new Uint8Array()) as Output
  return {
    command,
    args: [...args],
    pid: 0,
    ok: false,
    exitCode: null,
    signal: null,
    stdout: nothing(),
    stderr: nothing(),
    stdoutBytes: 0,
    stderrBytes: 0,
    truncated: false,
    durationMs: 0,
    firstOutputMs: null,
    lastOutputMs: null,
    pipesHeldOpen: false,
    straysKilled: 0,
    straysLeft: 0,
    containment: 'group',
    usage: { userMs: 0, systemMs: 0, maxRssBytes: 0 },
  }
}

/** A record that was written. */
export interface RecordFacts {
  /** Folder of this run. */
  folder: string
  /**
   * Bytes that were printed but are not in the record: past `maxRecordBytes`, or because the disk was
   * too slow.
   */
  leftOutBytes: number
  /** Reason why the record is not complete; absent when it is. */
  problem?: string
}

/** A line of output, without its line break. */
export interface OutputLine {
  /** The stream that the line was printed to. */
  stream: 'stdout' | 'stderr'
  /** Text of the line. */
  text: string
}

/** Lines that arrived together. Their strings may share memory. */
export interface LineBatch {
  /** The stream that the lines were printed to. */
  stream: 'stdout' | 'stderr'
  /** The lines, without their line breaks. */
  lines: string[]
}
