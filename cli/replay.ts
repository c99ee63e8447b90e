// sheepdog replay: what a recorded run says.
import { createReadStream, existsSync, lstatSync, statSync } from 'node:fs'
import { join } from 'node:path'
import {
  Harness,
  replayFile,
  replayRecord,
  type ProviderName,
  type Replay,
  type SheepdogError,
} from '../lib/index'
import { providerNames } from '../lib/harness/provider'
import { readRecord, type RecordFiles } from '../lib/harness/record_file'
import { absolutePath } from '../lib/host'
import { parseArguments, UsageError } from './arguments'
import { type Ending, type OptionTable, setting, flag } from './command'
import { describeResult } from './event'
import { eventLineOf } from './event_line'
import { showCount, showDuration } from './figure'
import { recordsFolder } from './record'
import { promptLines, stepLines, type Extent } from './recorded_step'
import { Tail } from './tail'
import { DataStream, json as toJson, passThrough, print, room, tell } from './screen'

export const summary = 'show events and verdict of a recorded agent run'

export const forms = ['PROVIDER FILE [options]', 'FOLDER [--full] [--json]']

export const about = `
Reads what an agent's CLI printed on stdout (FILE, or - for stdin). Shows its events and whether the turn succeeded.
Without --exit and --signal the end of the process is unknown, and the agent's own end of turn decides.

FOLDER is a run's own folder, made by --record, or the run's ID in ${recordsFolder}. Its prompt and its events are shown,
with the time of each and the output of tools. What its agent printed is read again and judged by the same rules. A run
without an end, because its host was killed or still works, is reported as unfinished.`

export const operands = [
  { name: 'PROVIDER', fits: providerNames() },
  { name: 'FILE', fits: 'file' },
] as const

export const options = {
  stderr: setting('FILE', 'file with its stderr'),
  exit: setting('N', 'its exit status'),
  signal: setting('S', 'signal that ended it, for example SIGKILL'),
  full: flag('show prompt, texts and the output of tools whole'),
  json: flag('print JSON lines: each event, then one line with the verdict'),
} as const satisfies OptionTable

export const notes = `
Exit status: 0 if the turn succeeded, 2 for a wrong command line, else 1. For another program: 0 if it ended with 0.`

export const examples = [
  'sheepdog replay codex stdout.jsonl --exit 0',
  'sheepdog replay 2026-11-22T142558.123Z-4f2a9c --full',
]

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals, command } = parseArguments(args, options)
  const [provider, file, ...rest] = [...positionals, ...(command ?? [])]
  const look: Look = { json: values.json ?? false, full: values.full ?? false }
  const folder = provider !== undefined && file === undefined ? folderOf(provider) : undefined
  if (folder !== undefined) return replayFolder(folder, look)
  if (!provider || !file) {
    const forms = 'sheepdog replay FOLDER shows a record, sheepdog replay PROVIDER FILE what an agent printed'
    const isProvider = providerNames().some((name) => name === provider)
    throw new UsageError(!provider || isProvider ? forms : `${provider}: no such folder: ${forms}`)
  }
  if (rest.length > 0) throw new UsageError(`${JSON.stringify(rest[0])} was not expected`)
  if (values.exit !== undefined && !/^\d{1,3}$/.test(values.exit)) {
    throw new UsageError(`--exit: expected an exit code, got ${JSON.stringify(values.exit)}`)
  }
  if (values.exit !== undefined && values.signal !== undefined)
    throw new UsageError('--exit and --signal exclude each other')
  if (isFolder(file))
    throw new UsageError(`the folder of a run names its agent: sheepdog replay ${file}, without ${provider}`)
  // A name that is wrong is told before a file that is missing.
  new Harness({ provider: provider as ProviderName })
  const input = (name: string) => (name === '-' ? '/dev/stdin' : name)
  const replayed = await replayFile(provider as ProviderName, input(file), {
    stderrFile: values.stderr,
    exitCode: values.exit === undefined ? undefined : Number(values.exit),
    signal: values.signal,
  }).catch((error: SheepdogError) => {
    const isInput = error.code === 'INVALID_OPTION' && /^(file|stderrFile): /.test(error.message)
    throw isInput ? new UsageError(error.message.replace(/^\w+: /, '')) : error
  })
  return show(replayed, look)
}

interface Look extends Extent {
  json: boolean
}

/** Shows the verdict of a turn, after its events. `told`: the folder whose events are shown as they were told. */
async function show(
  { ok, events, result, error }: Replay,
  look: Look,
  unfinished?: string | null,
  told?: string,
): Promise<number> {
  const { json } = look
  const lines: (string | undefined)[] = []
  const isShown = told !== undefined && !json && (await showTold(told, look))
  for (const event of isShown ? [] : events) {
    if (!(await room('stdout'))) break
    if (json) print(toJson(event))
    else stepLines(event, look).forEach(printLine)
  }
  if (json) lines.push(toJson({ type: 'result', ok, error, result, unfinished: unfinished ?? undefined }))
  else {
    if (result.text) lines.push('', result.text, '')
    lines.push(
      ok
        ? `ok: ${describeResult(result)}`
        : `${error!.code}${error!.kind ? ` (${error!.kind})` : ''}: ${error!.message}`,
    )
    if (unfinished) lines.push(`unfinished: ${unfinishedWords[unfinished] ?? unfinished}`)
  }
  lines.forEach(printLine)
  return ok ? 0 : 1
}

/** Shows the events in a record's own file, with their times. False when there are none. */
async function showTold(folder: string, look: Look): Promise<boolean> {
  const tail = new Tail(join(folder, 'events.jsonl'))
  // A message that came in pieces is one step, at the time of its first piece.
  let pieces: { text: string; ms?: number } | undefined
  const flush = () => {
    if (pieces)
      stepLines({ type: 'text', text: pieces.text, delta: false }, look, pieces.ms).forEach(printLine)
    pieces = undefined
  }
  let isShown = false
  for (let lines = await tail.next(); lines.length > 0; lines = await tail.next())
    for (const { text } of lines) {
      if (!(await room('stdout'))) return true
      const { event, ms } = eventLineOf(text) ?? {}
      if (!event) continue
      isShown = true
      if (look.json) print(toJson(event))
      else if (event.type === 'text' && event.delta) pieces = joined(pieces, event.text, ms)
      else {
        flush()
        stepLines(event, look, ms).forEach(printLine)
      }
    }
  flush()
  return isShown
}

/** Longest message that is kept until its end. */
const mostPieces = 1 << 20

function joined(before: { text: string; ms?: number } | undefined, text: string, ms: number | undefined) {
  if (!before) return { text, ms }
  return before.text.length > mostPieces ? before : { ...before, text: before.text + text }
}

function printLine(line: string | undefined): void {
  if (line !== undefined) print(line)
}

/** Writes a recorded stream; a slow reader is waited for. */
async function printFile(file: string, name: 'stdout' | 'stderr'): Promise<void> {
  const data = new DataStream(name)
  for await (const piece of createReadStream(file))
    if (!passThrough(name, data.fit(piece as Buffer)) && !(await room(name))) break
}

/** A session has no verdict of its own: its events, as they were told. */
async function showSession(
  folder: string,
  end: RecordEnd | undefined,
  look: Look,
  unfinished: string | null,
): Promise<number> {
  await showTold(folder, look)
  const failedPrompts = end?.failedPrompts ?? 0
  const ok = end?.ok === true && failedPrompts === 0
  const error = end?.error ?? end?.lastFailure
  const failed = failedPrompts > 0 ? `${showCount(failedPrompts, 'prompt failed', 'prompts failed')}: ` : ''
  if (look.json) print(toJson({ type: 'result', ok, error, unfinished }))
  else if (unfinished) print(`unfinished: ${unfinishedWords[unfinished]}`)
  else if (error) print(`${failed}${error.code}: ${error.message}`)
  else print(ok ? 'ok: the session was closed' : noEnding)
  return ok ? 0 : 1
}

type RecordEnd = NonNullable<RecordFiles['end']>

const noEnding = 'its end.json does not say how it ended'

const unfinishedWords: Record<string, string> = {
  running: 'it is still running; this is what is known so far',
  'host-gone': 'its host was gone before it ended; this is what was known until then',
  elsewhere: 'it has no end, and its host ran on another machine, boot or container',
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}

/** A folder by its path, or that of a run by its id in the usual folder of records. */
function folderOf(word: string): string | undefined {
  if (isFolder(word)) return word
  const recorded = join(recordsFolder, word)
  const isId = /^[\w.-]+$/.test(word) && existsSync(join(recorded, 'run.json'))
  return isId ? recorded : undefined
}

async function replayFolder(folder: string, look: Look): Promise<number> {
  const { json } = look
  const { start, end, unfinished, turn } = await replayRecord(folder)
  const known = (await readRecord(absolutePath(folder))) ?? { start: {} }
  const { prompt } = known.start
  if (!json && prompt !== undefined) promptLines(prompt, look).forEach(printLine)
  if (turn) return show(turn, look, unfinished, folder)
  if (start.kind === 'session') return showSession(folder, known.end, look, unfinished)
  const { error, exitCode } = known.end ?? {}
  const ok = !unfinished && !error && exitCode === 0
  if (json) print(toJson({ type: 'result', ok, unfinished, start, end }))
  else {
    for (const stream of ['stdout', 'stderr'] as const) {
      const file = join(folder, stream)
      if (lstatSync(file, { throwIfNoEntry: false })?.isFile()) await printFile(file, stream)
    }
    tell(`sheepdog: ${unfinished ? `unfinished: ${unfinishedWords[unfinished]}` : howItEnded(known.end)}`)
  }
  return ok ? 0 : 1
}

function howItEnded({ error, exitCode, signal, durationMs = 0 }: RecordEnd = {}): string {
  if (error) return `${error.code}: ${error.message}`
  if (!signal && exitCode === undefined) return noEnding
  return `${signal ? `ended by ${signal}` : `exited with ${exitCode}`} after ${showDuration(durationMs)}`
}
