// The two JSON files of a record (docs/record.md) as they stand on the disk, and the state of the run that follows from them.
import { constants } from 'node:fs'
import { lstat, open, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { toJson } from '../json'
import type { TokenUsage } from '../usage'
import { native } from '../native'
import type { RecordReplay } from './replay'
import type { AgentUsage } from './result'

const mostJsonBytes = 64 << 20

/** Type of a value in a file; a list has one type of items. */
type Shape = keyof Values | readonly [Shape] | { readonly [name: string]: Shape }

interface Values {
  string: string
  number: number
  boolean: boolean
  any: unknown
  error: { code: string; message: string; kind?: string }
  /** A part of the figures would look like all of them. The usage of a program is its processor time. */
  usage: TokenUsage & Pick<AgentUsage, 'costUsd'>
}

/** A value of a shape as it is read: a damaged file, or one of another version, may lack each field. */
type Read<S> = S extends keyof Values
  ? Values[S]
  : S extends readonly [infer Item]
    ? Read<Item>[]
    : { -readonly [Name in keyof S]?: Read<S[Name]> }

/** Content of `run.json`. */
type RecordStart = Read<typeof startShape>

const startShape = {
  kind: 'string',
  name: 'string',
  provider: 'string',
  prompt: 'string',
  command: 'string',
  args: ['string'],
  model: 'string',
  cwd: 'string',
  resume: 'string',
  startedAtMs: 'number',
  host: { pid: 'number', id: 'string' },
} as const satisfies Shape

/** Content of `end.json`. */
export type RecordEnd = Read<typeof endShape>

const endShape = {
  endedAtMs: 'number',
  durationMs: 'number',
  ok: 'boolean',
  /** Prompts of a session that failed. */
  failedPrompts: 'number',
  /** Error of the last one. */
  lastFailure: 'error',
  exitCode: 'number',
  signal: 'string',
  error: 'error',
  record: { problem: 'string' },
  /** Usage of all prompts of a session, or of a turn that has no result. */
  usage: 'usage',
  result: { text: 'string', structured: 'any', model: 'string', attempts: 'number', usage: 'usage' },
} as const satisfies Shape

/** Content of `race.json`: all entries of the race that a turn took part in. */
interface RecordedRace {
  entries: RecordedEntry[]
}

/** An entry of a race. */
export interface RecordedEntry {
  /** Name of its record's folder, beside the others; null when no turn was started. */
  run: string | null
  provider: string
  state: 'won' | 'passed' | 'failed-verify' | 'failed' | 'aborted'
  /** The error, or how `verify` ended. */
  reason: string | null
  tokens: number | null
  costUsd: number | null
  durationMs: number
  /** Files that it changed. */
  files: number | null
}

/** A record as far as its two files tell. */
export interface RecordFiles {
  start: RecordStart
  /** Absent as long as the run goes on, and for ever when its host was killed. */
  end?: RecordEnd
}

/** One name of a folder: nothing that leads elsewhere. */
export function isRecordName(name: string): boolean {
  return /^[\w.-]{1,200}$/.test(name) && !name.startsWith('.')
}

/** So many bytes of a file, or what there is of them; none when it is not there, or no file. */
export async function readRange(path: string, offset: number, bytes: number): Promise<Buffer> {
  let file
  try {
    // Not blocking: a pipe of that name would hold us up for ever.
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch {
    return Buffer.alloc(0)
  }
  try {
    if (!(await file.stat()).isFile()) return Buffer.alloc(0)
    const buffer = Buffer.allocUnsafe(bytes)
    const { bytesRead } = await file.read(buffer, 0, bytes, offset)
    return buffer.subarray(0, bytesRead)
  } finally {
    await file.close()
  }
}

async function readJson(path: string): Promise<unknown> {
  const size = (await lstat(path).catch(() => undefined))?.size ?? 0
  if (size === 0 || size > mostJsonBytes) return undefined
  try {
    return JSON.parse((await readRange(path, 0, size)).toString())
  } catch {
    return undefined
  }
}

/** `undefined`: the folder has no beginning, or one that is damaged. `start`: the beginning, if it was read before. */
export async function readRecord(folder: string, start?: RecordStart): Promise<RecordFiles | undefined> {
  start ??= fitting(await readJson(join(folder, 'run.json')), startShape)
  // The end is read last: a run whose end is missing had none when its host was looked for.
  return start && { start, end: fitting(await readJson(join(folder, 'end.json')), endShape) }
}

/** The value without fields of other types. */
function fitting<const S extends Shape>(value: unknown, shape: S): Read<S> | undefined
function fitting(value: unknown, shape: Shape): unknown {
  if (shape === 'any') return value
  if (shape === 'error') {
    const error = fitting(value, { code: 'string', message: 'string', kind: 'string' })
    return error && { code: '', message: '', ...error }
  }
  if (shape === 'usage') {
    const figure = 'number'
    const usage = fitting(value, {
      inputTokens: figure,
      outputTokens: figure,
      cachedInputTokens: figure,
      costUsd: figure,
    })
    const isWhole = tokens.every((name) => usage?.[name] !== undefined)
    return isWhole ? usage : undefined
  }
  if (shape === 'number') return isFigure(value) ? value : undefined
  if (typeof shape === 'string') return typeof value === shape ? value : undefined
  const items = (given: unknown[]) =>
    given.map((item) => fitting(item, shape[0])).filter((item) => item !== undefined)
  if (isList(shape)) return Array.isArray(value) ? items(value) : undefined
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  const fields = Object.entries(shape).map(([name, one]) => {
    const field = Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined
    return [name, fitting(field, one)] as const
  })
  return Object.fromEntries(fields.filter(([, field]) => field !== undefined))
}

/** Whether it is a number that a time can be and that sums stand: a damaged file can have others. */
function isFigure(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) <= mostFigure
}

/** Latest time that a `Date` can have. */
const mostFigure = 8.64e15

const isList = (shape: object): shape is readonly [Shape] => Array.isArray(shape)

const tokens = ['inputTokens', 'outputTokens', 'cachedInputTokens'] as const

const raceShape = {
  entries: [
    {
      run: 'string',
      provider: 'string',
      state: 'string',
      reason: 'string',
      tokens: 'number',
      costUsd: 'number',
      durationMs: 'number',
      files: 'number',
    } as const satisfies Record<keyof RecordedEntry, Shape>,
  ],
} as const satisfies Record<keyof RecordedRace, Shape>

/** null: the turn was in no race, or in one that is not over. */
export async function readRace(folder: string): Promise<RecordedEntry[] | null> {
  const race = fitting(await readJson(join(folder, 'race.json')), raceShape) as
    Partial<RecordedRace> | undefined
  const unknown = { run: null, reason: null, tokens: null, costUsd: null, durationMs: 0, files: null }
  const entries = race?.entries?.filter(
    ({ provider, state }) => provider !== undefined && state !== undefined,
  )
  return entries?.map((entry) => ({ ...unknown, ...entry })) ?? null
}

export async function writeRace(folder: string, race: RecordedRace): Promise<void> {
  await writeFile(join(folder, 'race.json'), toJson('race', race), { flag: 'wx', mode: 0o600 })
}

/** Why a record without an end has none, by its `run.json`. */
function unfinishedOf(start: RecordStart): NonNullable<RecordReplay['unfinished']> {
  return native.recordUnfinished(start.host?.id ?? '') as NonNullable<RecordReplay['unfinished']>
}

/** Attempts count as runs: they are processes. */
export function kindOf({ kind }: RecordStart): 'run' | 'turn' | 'session' {
  return kind === 'turn' || kind === 'session' ? kind : 'run'
}

/** Codes of runs that Sheepdog ended. */
const killed = /^(PROCESS|AGENT)_(IDLE|TIMED_OUT|ABORTED|KILLED|NO_PROGRESS|BUDGET|LINE_TOO_LONG)$/

export function stateOf({
  start,
  end,
}: RecordFiles): 'running' | 'done' | 'failed' | 'killed' | 'lost' | 'elsewhere' {
  if (!end) {
    const why = unfinishedOf(start)
    return why === 'host-gone' ? 'lost' : why
  }
  if (end.error) return killed.test(end.error.code) ? 'killed' : 'failed'
  if (kindOf(start) !== 'run') return end.ok && !end.failedPrompts ? 'done' : 'failed'
  if (end.signal) return 'killed'
  return end.exitCode === 0 ? 'done' : 'failed'
}

/** Name of the run: its own, or else its command. */
export function nameOf({ name, command, args = [] }: RecordStart): string | undefined {
  return name || [command, ...args].join(' ').slice(0, 200) || undefined
}
