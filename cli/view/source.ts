// The sources of the page: records in a folder, or the jobs of a fleet. Types alone.

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
}

/** Facts of one run besides its rows. */
export interface RunDetail extends RunSummary {
  folder: string
  prompt: string | null
  /** Name and value, as they are shown: model, cwd, command. */
  facts: [name: string, value: string][]
  message: string | null
  attempts: number
  tokens: { input: number; output: number; cached: number } | null
  costUsd: number | null
  rows: number
  /** Reason why the record is not whole, or null. */
  problem: string | null
  timeline: Timeline
}

export interface Bar {
  lane: 'attempt' | 'model' | 'tool'
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
  /** Nothing was heard from one to the other. */
  silences: [fromMs: number, toMs: number][]
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
}

export interface ProcessNode {
  pid: number
  depth: number
  command: string
  rssBytes: number
  cpuMs: number
}

export interface RunSource {
  /** Shown above the list. */
  readonly title: string
  list(): Promise<RunSummary[]>
  /** undefined: there is no such run. */
  detail(id: string): Promise<RunDetail | undefined>
  rows(id: string, from: number, count: number): Promise<Row[] | undefined>
  /** All of a row's text, up to a bound. */
  row(id: string, index: number): Promise<{ text: string; isCut: boolean } | undefined>
  processes(id: string): Promise<ProcessNode[]>
  /** Ends what runs of it; false when nothing does. */
  stop(id: string): Promise<boolean>
  /** Looks for news; ids of the runs that have some. */
  poll(): Promise<string[]>
}
