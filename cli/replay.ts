// sheepdog replay: what a recorded run says.
import { createReadStream, lstatSync, statSync } from 'node:fs'
import { join } from 'node:path'
import {
  replayFile,
  replayRecord,
  type AgentEvent,
  type ProviderName,
  type RecordReplay,
  type Replay,
  type SheepdogError,
} from '../lib/index'
import { providerNames } from '../lib/harness/provider'
import { checkHarnessOptions } from '../lib/harness/request'
import { parseArguments, UsageError } from './arguments'
import type { Ending, OptionTable } from './command'
import { describeEvent, describeResult } from './event'
import { showDuration } from './figure'
import { Tail } from './view/tail'
import { DataStream, json as toJson, passThrough, print, room, tell } from './screen'

export const summary = 'show events and verdict of a recorded agent run'

export const forms = ['PROVIDER FILE [options]', 'FOLDER [--json]']

export const about = `
Reads what an agent's CLI printed on stdout (FILE, or - for stdin). Shows its events and whether the turn succeeded.
Without --exit and --signal the end of the process is unknown, and the agent's own end of turn decides.

FOLDER is a run's own folder, made by --record. What its agent printed is read again and judged by the same rules. A
run without an end, because its host was killed or still works, is reported as unfinished.`

export const operands = [
  { name: 'PROVIDER', fits: providerNames() },
  { name: 'FILE', fits: 'file' },
] as const

export const options = {
  stderr: { type: 'string', value: 'FILE', fits: 'file', help: 'file with its stderr' },
  exit: { type: 'string', value: 'N', help: 'its exit status' },
  signal: { type: 'string', value: 'S', help: 'signal that ended it, for example SIGKILL' },
  json: { type: 'boolean', help: 'print JSON lines: each event, then one line with the verdict' },
} as const satisfies OptionTable

export const notes = `
Exit status: 0 if the turn succeeded, else 1. For another program: 0 if it ended with 0.`

export const examples = [
  'sheepdog replay codex stdout.jsonl --exit 0',
  'sheepdog replay .sheepdog/runs/2026-11-22T142558.123Z-4f2a9c',
]

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals, command } = parseArguments(args, options)
  const [provider, file, ...rest] = [...positionals, ...(command ?? [])]
  if (provider && file === undefined && isFolder(provider))
    return replayFolder(provider, values.json ?? false)
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
  checkHarnessOptions({ provider })
  const input = (name: string) => (name === '-' ? '/dev/stdin' : name)
  const replayed = await replayFile(provider as ProviderName, input(file), {
    stderrFile: values.stderr,
    exitCode: values.exit === undefined ? undefined : Number(values.exit),
    signal: values.signal,
  }).catch((error: SheepdogError) => {
    const isInput = error.code === 'INVALID_OPTION' && /^(file|stderrFile): /.test(error.message)
    throw isInput ? new UsageError(error.message.replace(/^\w+: /, '')) : error
  })
  return show(replayed, values.json ?? false)
}

async function show(
  { ok, events, result, error }: Replay,
  json: boolean,
  unfinished?: string | null,
): Promise<number> {
  const lines: (string | undefined)[] = []
  for (const event of events) {
    if (!(await room('stdout'))) break
    printLine(json ? toJson(event) : describeEvent(event))
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
  end: RecordReplay['end'],
  json: boolean,
  unfinished: string | null,
): Promise<number> {
  const tail = new Tail(join(folder, 'events.jsonl'))
  reading: for (let lines = await tail.next(); lines.length > 0; lines = await tail.next())
    for (const { text } of lines) {
      if (!(await room('stdout'))) break reading
      const event = eventOf(text)
      if (event) printLine(json ? toJson(event) : describeEvent(event))
    }
  const ok = end?.ok === true
  const error = end?.error as { code: string; message: string } | undefined
  if (json) print(toJson({ type: 'result', ok, error, unfinished }))
  else if (unfinished) print(`unfinished: ${unfinishedWords[unfinished]}`)
  else print(error ? `${error.code}: ${error.message}` : 'ok: the session was closed')
  return ok ? 0 : 1
}

/** The event of a line; undefined for a line that is damaged. */
function eventOf(line: string): AgentEvent | undefined {
  try {
    return (JSON.parse(line) as { event?: AgentEvent } | null)?.event
  } catch {
    return undefined
  }
}

const unfinishedWords: Record<string, string> = {
  running: 'it is still running; this is what is known so far',
  'host-gone': 'its host was gone before it ended; this is what was known until then',
  elsewhere: 'it has no end, and its host ran on another machine, boot or container',
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
}

async function replayFolder(folder: string, json: boolean): Promise<number> {
  const { start, end, unfinished, turn } = await replayRecord(folder)
  if (turn) return show(turn, json, unfinished)
  if (start.kind === 'session') return showSession(folder, end, json, unfinished)
  const { error, exitCode, signal, durationMs } = (end ?? {}) as {
    error?: { code: string; message: string }
    exitCode?: number | null
    signal?: string | null
    durationMs?: number
  }
  const ok = !unfinished && !error && exitCode === 0
  if (json) print(toJson({ type: 'result', ok, unfinished, start, end }))
  else {
    for (const stream of ['stdout', 'stderr'] as const) {
      const file = join(folder, stream)
      if (lstatSync(file, { throwIfNoEntry: false })?.isFile()) await printFile(file, stream)
    }
    const how = error
      ? `${error.code}: ${error.message}`
      : unfinished
        ? `unfinished: ${unfinishedWords[unfinished]}`
        : `${signal ? `ended by ${signal}` : `exited with ${exitCode}`} after ${showDuration(durationMs ?? 0)}`
    tell(`sheepdog: ${how}`)
  }
  return ok ? 0 : 1
}
