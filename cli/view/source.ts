// The sources of the page: records in a folder, or the jobs of a fleet. Types alone.
import type { RecordedEntry } from '../../lib/harness/record_file'
import type { RecordIndex } from './record_index'
import type { Span } from './terminal_line'

/** "waiting": a job that no worker has yet. */
export type RunState = 'waiting' | 'running' | 'done' | 'failed' | 'killed' | 'lost'

/** One run in the list. Times are milliseconds. */
export interface RunSummary {
  id: string
  kind: 'run' | 'turn' | 'session'
  name: string
  /** The provider of a turn, the program of a run. */
  what: string
  /** "lost": it has no end, and its host is gone. */
  state: RunState
  startedAtMs: number
  /** To now, while it runs; null for one that was lost. */
  durationMs: number | null
  /** The code of its error, or how it exited. */
  ending: string | null
  /** Input and output together, as far as they are known without reading the whole run. */
  tokens: number | null
  costUsd: number | null
}

/** One attempt. Times are milliseconds since the beginning of the run. */
export interface Try {
  attempt: number
  fromMs: number
  /** null: it goes on. */
  toMs: number | null
  /** The worker that had it, of a job's. */
  worker: string | null
  error: string | null
  tokens: number | null
  costUsd: number | null
}

/** Facts of one run besides its rows. */
export interface RunDetail extends Omit<RunSummary, 'tokens'> {
  folder: string
  prompt: string | null
  /** Prompts of a session, and the rows that they stand in. */
  prompts: Prompt[]
  /** Longer texts by name: the answer, a job's data and result. */
  texts: [name: string, text: string][]
  /** Name and value, as they are shown: model, cwd, command. */
  facts: [name: string, value: string][]
  message: string | null
  attempts: number
  tries: Try[]
  /** All entries of the race that it took part in; null for others. */
  race: RecordedEntry[] | null
  tokens: { input: number; output: number; cached: number } | null
  costUsd: number | null
  rows: number
  /** Whether more rows are on the disk than were read so far. */
  isReading: boolean
  /** Reason why the record is not whole, or null. */
  problem: string | null
  timeline: Timeline
}

export interface Bar {
  lane: 'wait' | 'attempt' | 'model' | 'tool'
  label: string
  fromMs: number
  /** null: still open. */
  toMs: number | null
  isError: boolean
  /** The row that it began in. */
  row: number
}

export interface Timeline {
  /** Up to the last thing that was heard. */
  heardMs: number
  bars: Bar[]
  /** Nothing was heard from one to the other; the row that ended it. */
  silences: [fromMs: number, toMs: number, row: number][]
  marks: { atMs: number; label: string; tone: 'kill' | 'retry' }[]
}

/** One line of the list of events. */
export interface Row {
  index: number
  ms: number
  attempt: number
  label: string
  /** One line, cut. */
  text: string
  tone: 'plain' | 'quiet' | 'tool' | 'good' | 'bad' | 'warn'
  /** Lines that unfold, 0: nothing more. */
  more: number
  /** Output of a program: the text in its colours. */
  spans?: Span[]
  /** Time since the row before. */
  silenceMs?: number
}

export interface Prompt {
  text: string
  row: number
}

/** Answer of a search: rows up to `next`, where the next call goes on; null at the end. */
export interface Found {
  rows: number[]
  next: number | null
}

export interface ProcessNode {
  pid: number
  depth: number
  command: string
  rssBytes: number
  cpuMs: number
}

export type FileKind = 'stdout' | 'stderr' | 'events'

export interface RunSource {
  /** Shown above the list. */
  readonly title: string
  list(): Promise<RunSummary[]>
  /** undefined: there is no such run. */
  detail(id: string): Promise<RunDetail | undefined>
  /** Its rows, as far as they are known. */
  index(id: string): Promise<RecordIndex | undefined>
  processes(id: string): Promise<ProcessNode[]>
  /** The bytes that were recorded. */
  file(id: string, what: FileKind): Promise<AsyncIterable<string | Uint8Array> | undefined>
  /** Ends what runs of it; false when nothing does. */
  stop(id: string): Promise<boolean>
  /** Looks for news; ids of the runs that have some. */
  poll(): Promise<string[]>
}
