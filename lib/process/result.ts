// What a run brings home: types alone.
import type { SandboxReport } from '../sandbox'

/**
 * How a program ended. Durations are milliseconds by a monotonic clock, from the spawn. With `encoding: "buffer"` stdout and
 * stderr are bytes.
 */
export interface RunResult<Output = string> {
  command: string
  args: string[]
  pid: number
  /** null when a signal ended it. */
  exitCode: number | null
  /** For example "SIGTERM"; null when it exited. */
  signal: string | null
  stdout: Output
  stderr: Output
  /** Bytes printed in all. */
  stdoutBytes: number
  stderrBytes: number
  /** Whether bytes were left out of `stdout` or `stderr`. */
  truncated: boolean
  /** Until the exit. */
  durationMs: number
  firstOutputMs: number | null
  lastOutputMs: number | null
  /** Others held stdout or stderr open past the drain. */
  pipesHeldOpen: boolean
  /** Descendants that had to be killed. */
  straysKilled: number
  /** Descendants that could not be killed: they run as another user (setuid). */
  straysLeft: number
  /** What held the tree together. */
  containment: 'guard' | 'guard+cgroup' | 'pidns' | 'group'
  /** Of the command and the descendants that it waited for. */
  usage: { userMs: number; systemMs: number; maxRssBytes: number }
  /** Where it is on record, when that was asked for. */
  record?: RecordFacts
  /** What held its sandbox, when that was asked for. */
  sandbox?: SandboxReport
}

/** What became of a record. */
export interface RecordFacts {
  /** The run's own folder. */
  folder: string
  /** Printed and not in the files: past `maxRecordBytes`, or the disk could not follow. */
  leftOutBytes: number
  /** Why the record is not whole. */
  problem?: string
}

/** A line, without its end. */
export interface OutputLine {
  stream: 'stdout' | 'stderr'
  text: string
}

/** Lines that came together; they may share memory with each other. */
export interface LineBatch {
  stream: 'stdout' | 'stderr'
  lines: string[]
}
