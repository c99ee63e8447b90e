// The runs of a folder of records (docs/record.md), live and past.
import { lstat, readdir } from 'node:fs/promises'
import { basename, dirname, join, sep } from 'node:path'
import { listTrees, stopTree, type RunSummary as RecordedRun, type RunTree } from '../../lib/index'
import { isRecordName, kindOf, readRace, readRecord, type RecordFiles } from '../../lib/harness/record_file'
import { summaryOf } from '../../lib/harness/recorded_runs'
import { absolutePath, elapsedMs } from '../../lib/host'
import { showCount } from '../figure'
import { AttemptFiles } from './attempt_files'
import { OutputIndex } from './output_index'
import { Indexes, type RecordIndex, shortly } from './record_index'
import { RunIndex } from './run_index'
import type { FileKind, ProcessNode, RunDetail, RunSource, RunSummary } from './source'
import { readPieces } from '../tail'
import { withTries } from './tries'
import { sumOf, tokensOf } from './usage'

/** How long a look at the process table serves. */
const treesMs = 700
/** Longest answer that is shown beside the rows. */
const mostAnswer = 200_000

export class RecordSource implements RunSource {
  readonly title: string
  readonly #folder: string
  /** The one run that is shown, when a run's own folder was named. */
  readonly #only: string | undefined
  readonly #known = new Map<string, RecordFiles>()
  readonly #indexes = new Indexes()
  readonly #attempts = new AttemptFiles()
  /** Versions of the rows that the page knows. */
  readonly #versions = new Map<string, number>()
  #trees: { at: number; trees: Promise<RunTree[]> } | undefined

  private constructor(folder: string, only: string | undefined) {
    this.#folder = folder
    this.#only = only
    this.title = only ?? folder
  }

  /** Opens a folder of records, or one record. */
  static async open(path: string): Promise<RecordSource> {
    const folder = absolutePath(path)
    const isOne = (await lstat(join(folder, 'run.json')).catch(() => undefined))?.isFile() ?? false
    return isOne ? new RecordSource(dirname(folder), basename(folder)) : new RecordSource(folder, undefined)
  }

  async list(): Promise<RunSummary[]> {
    const ids = await this.#ids()
    const all = await Promise.all(ids.map(async (id) => [id, await this.#read(id)] as const))
    return all.flatMap(([id, known]) => (known ? [this.#summary(this.#run(id, known), known)] : []))
  }

  #run(id: string, known: RecordFiles): RecordedRun {
    return summaryOf(id, join(this.#folder, id), known)
  }

  /** Tokens and money are those of its end, or of its rows where they are read. */
  #summary(run: RecordedRun, { start, end }: RecordFiles): RunSummary {
    const { id, kind, name, state, exitCode, failedPrompts } = run
    const failed = failedPrompts && showCount(failedPrompts, 'failed prompt')
    const exit = run.signal ?? (exitCode === undefined ? null : `exit ${exitCode}`)
    return {
      id,
      kind,
      name,
      what: start.provider ?? start.command ?? '',
      state: state === 'elsewhere' ? 'lost' : state,
      startedAtMs: run.startedAt.getTime(),
      durationMs: run.durationMs ?? null,
      ending: end?.error?.code ?? (failed || exit),
      ...sumOf(run.usage ?? this.#indexes.get(id)?.usage),
    }
  }

  async detail(id: string): Promise<RunDetail | undefined> {
    const known = await this.#look(id)
    if (!known) return undefined
    const run = this.#run(id, known)
    const summary = this.#summary(run, known)
    const index = await this.#index(id, known)
    const { start, end } = known
    const usage = run.usage ?? index.usage
    const tries =
      summary.kind === 'turn' ? await this.#attempts.of(join(this.#folder, id), start.startedAtMs ?? 0) : []
    // A process that was killed after a good end of turn is no failure.
    const last = tries.at(-1)
    if (last && summary.state === 'done') last.error = null
    const heard = index.timeline.timeline()
    const timeline =
      tries.length === 0
        ? heard
        : withTries(heard, tries, { first: 'waits for its turn', isWaiting: summary.state === 'running' })
    const marks = endMarks(summary, index, end)
    return {
      ...summary,
      folder: join(this.#folder, id),
      prompt: start.prompt ?? null,
      prompts: [...index.prompts],
      texts: [...textsOf(end), ...(summary.kind === 'session' ? lastAnswer(index) : [])],
      facts: factsOf(start, end),
      message: end?.error?.message ?? null,
      attempts: Math.max(index.timeline.attempts, tries.length),
      tries,
      race: await readRace(join(this.#folder, id)),
      tokens: tokensOf(usage),
      costUsd: usage?.costUsd || null,
      rows: index.length,
      isReading: index.isReading,
      problem: end?.record?.problem ?? null,
      timeline: { ...timeline, marks: [...timeline.marks, ...marks] },
    }
  }

  async index(id: string): Promise<RecordIndex | undefined> {
    const known = await this.#look(id)
    return known && this.#index(id, known)
  }

  async file(id: string, what: FileKind) {
    const isKnown = (await this.#look(id)) !== undefined
    return isKnown ? readPieces(join(this.#folder, id, what === 'events' ? 'events.jsonl' : what)) : undefined
  }

  async processes(id: string): Promise<ProcessNode[]> {
    return (await this.#treesOf(id)).flatMap(({ processes }) => nested(processes))
  }

  async stop(id: string): Promise<boolean> {
    this.#trees = undefined
    const trees = await this.#treesOf(id)
    await Promise.all(trees.map((tree) => stopTree(tree.id)))
    this.#trees = undefined
    return trees.length > 0
  }

  async poll(): Promise<string[]> {
    const news: string[] = []
    const before = new Set(this.#known.keys())
    const runs = await this.list()
    const there = new Set(runs.map(({ id }) => id))
    for (const id of before) {
      if (there.has(id)) continue
      this.#known.delete(id)
      news.push(id)
    }
    for (const { id } of runs) {
      const index = this.#indexes.get(id)
      let isRead = false
      if (index) {
        await shortly(index.refresh())
        isRead = index.version !== this.#versions.get(id)
        this.#versions.set(id, index.version)
      }
      if (!before.has(id) || isRead || this.#ended.delete(id)) news.push(id)
    }
    return news
  }

  /** Those whose end was seen since the last poll. */
  readonly #ended = new Set<string>()

  async #ids(): Promise<string[]> {
    if (this.#only) return (await this.#isFolder(this.#only)) ? [this.#only] : []
    const entries = await readdir(this.#folder, { withFileTypes: true }).catch(() => [])
    // A link may lead anywhere.
    const folders = entries.filter((entry) => entry.isDirectory() && isRecordName(entry.name))
    return folders.map(({ name }) => name).sort((a, b) => (a < b ? 1 : -1))
  }

  /** Not that of a link, nor of a run that was removed meanwhile. */
  async #isFolder(id: string): Promise<boolean> {
    return (await lstat(join(this.#folder, id)).catch(() => undefined))?.isDirectory() ?? false
  }

  async #look(id: string): Promise<RecordFiles | undefined> {
    if (!isRecordName(id) || (this.#only && id !== this.#only)) return undefined
    return (await this.#isFolder(id)) ? this.#read(id) : undefined
  }

  async #read(id: string): Promise<RecordFiles | undefined> {
    let known = this.#known.get(id)
    if (!known?.end) {
      known = await readRecord(join(this.#folder, id), known?.start)
      if (known) this.#known.set(id, known)
      if (known?.end) this.#ended.add(id)
    }
    return known
  }

  #index(id: string, { start }: RecordFiles): Promise<RecordIndex> {
    const folder = join(this.#folder, id)
    const kind = kindOf(start)
    return this.#indexes.of(id, () => (kind === 'run' ? new OutputIndex(folder) : new RunIndex(folder, kind)))
  }

  async #treesOf(id: string): Promise<RunTree[]> {
    const now = elapsedMs()
    if (!this.#trees || now - this.#trees.at > treesMs) this.#trees = { at: now, trees: listTrees() }
    const folder = join(this.#folder, id)
    const isOf = ({ record }: RunTree) => record === folder || record?.startsWith(folder + sep)
    return (await this.#trees.trees).filter(isOf)
  }
}

function textsOf(end: RecordFiles['end']): [string, string][] {
  const { text, structured } = end?.result ?? {}
  const texts: [string, string][] = []
  if (text) texts.push(['answer', text.slice(0, mostAnswer)])
  if (structured !== undefined)
    texts.push(['structured answer', JSON.stringify(structured, null, 2).slice(0, mostAnswer)])
  return texts
}

/** A session's end has no answer: its last one is told by its events. */
function lastAnswer({ answer, prompts }: RecordIndex): [string, string][] {
  return answer === '' ? [] : [[prompts.length > 1 ? 'last answer' : 'answer', answer]]
}

/** Why it is over, where no event says so. */
function endMarks({ state, ending }: RunSummary, index: RecordIndex, end: RecordFiles['end']) {
  const tone = 'kill' as const
  if (state === 'lost') return [{ atMs: index.timeline.heardMs, label: 'the host was gone', tone }]
  if (state !== 'killed' || index.timeline.hasMarks) return []
  return [{ atMs: end?.durationMs ?? index.timeline.heardMs, label: ending ?? 'killed', tone }]
}

function factsOf(start: RecordFiles['start'], end: RecordFiles['end']): [string, string][] {
  const facts: [string, string | null | undefined][] = [
    ['model', end?.result?.model ?? start.model],
    [
      'command',
      kindOf(start) !== 'run' ? undefined : [start.command, ...(start.args ?? [])].join(' ').slice(0, 500),
    ],
    ['cwd', start.cwd],
    ['resumed', start.resume],
    ['host process', start.host?.pid === undefined ? undefined : `pid ${start.host.pid}`],
  ]
  return facts.filter((fact): fact is [string, string] => !!fact[1])
}

/** Each one below its parent. */
function nested(processes: RunTree['processes']): ProcessNode[] {
  const pids = new Set(processes.map(({ pid }) => pid))
  const below = (parent: number | undefined, depth: number): ProcessNode[] =>
    processes
      .filter((one) =>
        parent === undefined ? !pids.has(one.parent) : one.parent === parent && one.pid !== parent,
      )
      .flatMap(({ pid, command, rssBytes, cpuMs }) => [
        { pid, depth, command, rssBytes, cpuMs },
        ...(depth < 50 ? below(pid, depth + 1) : []),
      ])
  return below(undefined, 0)
}
