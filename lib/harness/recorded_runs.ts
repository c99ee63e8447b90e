// The runs of a folder of records: listed, and pruned.
import { lstat, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { invalidOption } from '../error'
import { absolutePath } from '../host'
import { native } from '../native'
import { check, checkOptions, type Checks } from '../option'
import {
  isRecordName,
  kindOf,
  nameOf,
  readRecord,
  stateOf,
  type RecordEnd,
  type RecordFiles,
} from './record_file'

const states = ['running', 'done', 'failed', 'killed', 'lost', 'elsewhere'] as const

/**
 * State of a recorded run. `"failed"`: the turn failed, or the program's exit status is not 0. `"killed"`:
 * a limit, an abort or a signal ended it. `"lost"`: its host was killed before it ended. `"elsewhere"`: it
 * has no end, and its host ran on another machine, boot or container; whether it goes on is not known.
 */
export type RunState = (typeof states)[number]

/** A recorded run, as its files tell it. */
export interface RunSummary {
  /** Name of its folder, which begins with the time of the start. */
  id: string
  /** Its folder, for `replayRecord`. */
  folder: string
  /** Kind of the record: a program, a turn, or a session. */
  kind: 'run' | 'turn' | 'session'
  /** Whether it goes on, or how it ended. */
  state: RunState
  /** Its `name`, or else the head of its prompt or its command. */
  name: string
  /** Agent of a turn or session. */
  provider?: string
  /** Program of a run. */
  command?: string
  /** Time of the start. */
  startedAt: Date
  /** Absent for a run without an end. */
  endedAt?: Date
  /** From the start to the end, in milliseconds. To the present for a run that goes on; absent if unknown. */
  durationMs?: number
  /** Attempts of a turn. */
  attempts?: number
  /** Tokens and cost of a turn that ended, where its agent reported them. */
  usage?: { inputTokens: number; outputTokens: number; cachedInputTokens: number; costUsd?: number }
  /** Error of the run, turn or session. For a session that ended well, the error of its last prompt that failed. */
  error?: { code: string; message: string; kind?: string }
  /** Exit status of a program. */
  exitCode?: number
  /** Signal that ended a program. */
  signal?: string
  /** Number of prompts of a session that failed. */
  failedPrompts?: number
}

/** Options of `listRuns`. */
export interface ListRunsOptions {
  /** Runs in this state, or in one of these states. */
  state?: RunState | readonly RunState[]
  /** Turns and sessions of this agent. */
  provider?: string
  /** Runs that started at this time or later. */
  since?: Date
  /**
   * Largest number of runs.
   *
   * @default no limit
   */
  limit?: number
}

/** Options of `pruneRuns`. At least one of `olderThanMs`, `maxBytes` and `states` is needed. */
export interface PruneRunsOptions {
  /**
   * Remove runs that ended at least this long ago, in milliseconds. For a run without an end, the time of
   * its last output counts.
   *
   * @default no limit
   */
  olderThanMs?: number
  /**
   * Remove the oldest runs until all the records in the folder have at most this many bytes.
   *
   * @default no limit
   */
  maxBytes?: number
  /**
   * Remove runs in these states only. `"elsewhere"` has to be named, because such a run may still go on.
   *
   * @default ["done", "failed", "killed", "lost"]
   */
  states?: readonly Exclude<RunState, 'running'>[]
  /**
   * Count what would be removed, and remove nothing.
   *
   * @default false
   */
  dryRun?: boolean
}

const listChecks = {
  state(path, value) {
    if (Array.isArray(value)) check.listOf(checkState)(path, value)
    else checkState(path, value)
  },
  provider: check.name,
  since: check.date,
  limit: check.count,
} satisfies Checks<ListRunsOptions>

const checkState = check.oneOf(...states)

const pruneChecks = {
  olderThanMs: check.duration,
  maxBytes: check.amount,
  states: check.listOf((path, one) => {
    if (one === 'running') throw invalidOption(path, 'a run that goes on is never removed')
    checkState(path, one)
  }),
  dryRun: check.boolean,
} satisfies Checks<PruneRunsOptions>

/**
 * Yields the runs of a folder of records, the latest first.
 *
 * @throws INVALID_OPTION when there is no such folder, or when it is the record of one run.
 *
 * @example
 * for await (const { name, error } of listRuns('.sheepdog/runs', { state: 'failed' }))
 *   console.log(name, error?.message)
 */
export async function* listRuns(
  folder: string,
  options: ListRunsOptions = {},
): AsyncGenerator<RunSummary, void, void> {
  check.name('folder', folder)
  checkOptions(options, listChecks)
  const { state, provider, since, limit = Infinity } = options
  const wanted = state === undefined ? states : ([state].flat() as RunState[])
  let left = limit
  for (const { summary } of await foldersOf(folder)) {
    const run = await summary()
    if (!run || !wanted.includes(run.state)) continue
    if (provider !== undefined && run.provider !== provider) continue
    if (since && run.startedAt < since) continue
    yield run
    if (--left === 0) return
  }
}

/**
 * Removes records of runs that are over. A run that goes on is never removed.
 *
 * @returns Number of runs that were removed, and the bytes of their files. `problems`: those that could not be removed, and why.
 * @throws INVALID_OPTION for a folder as in `listRuns`, and without any limit.
 *
 * @example
 * await pruneRuns('.sheepdog/runs', { olderThanMs: 7 * 86_400_000, maxBytes: 2e9 })
 */
export async function pruneRuns(
  folder: string,
  options: PruneRunsOptions,
): Promise<{ runs: number; bytes: number; problems?: string[] }> {
  check.name('folder', folder)
  checkOptions(options, pruneChecks)
  const { olderThanMs, maxBytes, states, dryRun = false } = options ?? {}
  if (olderThanMs === undefined && maxBytes === undefined && states === undefined)
    throw invalidOption('options', 'expected olderThanMs, maxBytes or states: nothing says what to remove')
  const found = await recordsOf(folder)
  let total = found.reduce((sum, { bytes }) => sum + bytes, 0)
  const isUnlimited = olderThanMs === undefined && maxBytes === undefined
  const before = Date.now() - (olderThanMs ?? 0)
  const pruned = { runs: 0, bytes: 0 }
  const problems: string[] = []
  // The folders' names begin with the time: the oldest come last.
  for (const { run, bytes, lastMs } of found.reverse()) {
    if (!(states ?? prunedStates).some((state) => state === run.state) || run.state === 'running') continue
    const isOld = olderThanMs !== undefined && lastMs <= before
    const isTooMuch = maxBytes !== undefined && total > maxBytes
    if (!isUnlimited && !isOld && !isTooMuch) continue
    if (!dryRun && !(await putAside(run.folder, run.id, problems))) continue
    total -= bytes
    pruned.runs++
    pruned.bytes += bytes
  }
  if (!dryRun) await removeRests(absolutePath(folder), problems)
  return { ...pruned, ...(problems.length > 0 && { problems }) }
}

const prunedStates: readonly RunState[] = ['done', 'failed', 'killed', 'lost']

interface Found {
  run: RunSummary
  bytes: number
  /** When it ended, or when it wrote last. */
  lastMs: number
}

async function recordsOf(folder: string): Promise<Found[]> {
  const found: Found[] = []
  for (const { summary } of await foldersOf(folder)) {
    const run = await summary()
    if (!run) continue
    const { bytes, changedMs } = await sizeOf(run.folder)
    found.push({ run, bytes, lastMs: run.endedAt?.getTime() ?? changedMs })
  }
  return found
}

/** Folders that can be records, the latest first. */
async function foldersOf(folder: string): Promise<{ summary: () => Promise<RunSummary | undefined> }[]> {
  const path = absolutePath(folder)
  const isRecord = (await lstat(join(path, 'run.json')).catch(() => undefined))?.isFile() ?? false
  if (isRecord) throw invalidOption('folder', `${path} is the record of one run: pass the folder above it`)
  const entries = await readdir(path, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    const why = error.code === 'ENOENT' ? 'does not exist' : `cannot be read: ${error.message}`
    throw invalidOption('folder', `${path} ${why}`)
  })
  // A link may lead anywhere.
  const names = entries
    .filter((entry) => entry.isDirectory() && isRecordName(entry.name))
    .map(({ name }) => name)
  return names
    .sort((a, b) => (a < b ? 1 : -1))
    .map((id) => ({ summary: () => readSummary(id, join(path, id)) }))
}

async function readSummary(id: string, folder: string): Promise<RunSummary | undefined> {
  let files = await readRecord(folder)
  if (!files?.start.kind) return undefined
  // It may have ended between the two looks.
  if (stateOf(files) === 'lost') files = (await readRecord(folder, files.start)) ?? files
  return summaryOf(id, folder, files)
}

/** @internal A run by what its files tell. */
export function summaryOf(id: string, folder: string, { start, end }: RecordFiles): RunSummary {
  const state = stateOf({ start, end })
  const kind = kindOf(start)
  const startedAtMs = start.startedAtMs ?? 0
  const untilMs = end?.endedAtMs ?? (state === 'running' ? Date.now() : undefined)
  return {
    id,
    folder,
    kind,
    state,
    name: nameOf(start) ?? id,
    ...(start.provider && { provider: start.provider }),
    ...(kind === 'run' && start.command && { command: start.command }),
    startedAt: new Date(startedAtMs),
    ...(end?.endedAtMs && { endedAt: new Date(end.endedAtMs) }),
    ...(untilMs !== undefined && { durationMs: Math.max(0, untilMs - startedAtMs) }),
    ...endFacts(end),
  }
}

function endFacts(end: RecordEnd = {}): Partial<RunSummary> {
  const { exitCode, signal, failedPrompts, result } = end
  const error = end.error ?? end.lastFailure
  // The usage of a program is its processor time.
  const usage = [end.usage, result?.usage].find((one) => one?.inputTokens !== undefined)
  return {
    ...(result?.attempts && { attempts: result.attempts }),
    ...(usage && { usage }),
    ...(error && { error }),
    ...(exitCode != null && { exitCode }),
    ...(signal && { signal }),
    ...(failedPrompts && { failedPrompts }),
  }
}

/** Bytes of the files below a folder, and the time of the last change. */
async function sizeOf(folder: string): Promise<{ bytes: number; changedMs: number }> {
  let bytes = 0
  let changedMs = 0
  const entries = await readdir(folder, { withFileTypes: true, recursive: true }).catch(() => [])
  for (const entry of entries) {
    const facts = await lstat(join(entry.parentPath, entry.name)).catch(() => undefined)
    if (!facts?.isFile()) continue
    bytes += facts.size
    changedMs = Math.max(changedMs, facts.mtimeMs)
  }
  return { bytes, changedMs }
}

/** A folder that is being removed: its name is that of no record, so that nobody sees half of one. */
const restPrefix = '.pruned-'

/** False when it stays there, or somebody else took it first. One that has to stay keeps no other from being removed. */
async function putAside(folder: string, id: string, problems: string[]): Promise<boolean> {
  try {
    await rename(folder, join(folder, '..', `${restPrefix}${id}`))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') problems.push((error as Error).message)
    return false
  }
}

/** Removes what was put aside, by earlier calls that could not finish as well. */
async function removeRests(folder: string, problems: string[]): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!name.startsWith(restPrefix)) continue
    const rest = join(folder, name)
    // Its program may have made a folder whose path is longer than Node takes.
    if (!(await native.removeFolder(rest)))
      await rm(rest, { recursive: true, force: true }).catch((error: Error) => problems.push(error.message))
  }
}
