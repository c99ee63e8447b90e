// Records for the page's tests, written as docs/record.md says: as many as are wanted, without running anything.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const json = (value: unknown) => JSON.stringify(value)

/**
 * A turn of so many events, tool calls mostly, one each 40 ms. The page's list begins with the highest `id`, because the ids of
 * runs begin with a time.
 */
export function writeTurn(
  parent: string,
  { id, name, events, end = true }: { id: string; name: string; events: number; end?: boolean },
): string {
  const folder = join(parent, id)
  mkdirSync(folder, { recursive: true })
  const startedAtMs = Date.now() - events * 40
  const host = { pid: 4_194_999, id: '000000-4194999-1' }
  writeFileSync(
    join(folder, 'run.json'),
    json({ version: 1, kind: 'turn', name, provider: 'codex', prompt: name, startedAtMs, host }),
  )
  const lines = Array.from({ length: events }, (_, index) => {
    const id = `t${Math.floor(index / 2)}`
    const event =
      index % 2 === 0
        ? { type: 'tool_start', id, name: 'bash', input: { command: `make part-${index}` } }
        : {
            type: 'tool_end',
            id,
            name: 'bash',
            output: `built ${index}\nin no time`,
            exitCode: 0,
            isError: false,
          }
    return json({ ms: index * 40, attempt: 1, event })
  })
  writeFileSync(join(folder, 'events.jsonl'), `${lines.join('\n')}\n`)
  const usage = { inputTokens: 12_345, outputTokens: 678, cachedInputTokens: 0, costUsd: 0.42 }
  if (end)
    writeFileSync(
      join(folder, 'end.json'),
      json({ ok: true, endedAtMs: startedAtMs + events * 40, result: { usage } }),
    )
  return folder
}

/** A program's output of so many lines, one each millisecond; `pauses`: silence before a line, by the lines before it. */
export function writeOutput(
  parent: string,
  { id, lines, pauses = {} }: { id: string; lines: number; pauses?: Record<number, number> },
): void {
  const folder = join(parent, id)
  mkdirSync(folder, { recursive: true })
  const startedAtMs = Date.now() - 3_600_000
  writeFileSync(
    join(folder, 'run.json'),
    json({ version: 1, kind: 'run', name: 'output', command: 'make', args: [], startedAtMs }),
  )
  const text: string[] = []
  const times: string[] = []
  let ms = 0
  for (let at = 0; at < lines; at++) {
    ms += 1 + (pauses[at] ?? 0)
    text.push(`\u001b[3${1 + (at % 6)}mline ${at + 1} of ${lines}\u001b[0m`)
    times.push(`${ms} stdout ${Buffer.byteLength(text.at(-1)!) + 1}`)
  }
  writeFileSync(join(folder, 'stdout'), `${text.join('\n')}\n`)
  writeFileSync(join(folder, 'times'), `${times.join('\n')}\n`)
  writeFileSync(join(folder, 'end.json'), json({ exitCode: 0, endedAtMs: startedAtMs + ms, durationMs: ms }))
}

/** A session with these prompts, each answered. */
export function writeSession(parent: string, { id, prompts }: { id: string; prompts: string[] }): void {
  const folder = join(parent, id)
  mkdirSync(folder, { recursive: true })
  const startedAtMs = Date.now() - 60_000
  writeFileSync(
    join(folder, 'run.json'),
    json({ version: 1, kind: 'session', name: 'a session', provider: 'codex', startedAtMs }),
  )
  const events = prompts.flatMap((text, turn) => [
    { type: 'turn_start', turn: turn + 1, by: 'user' },
    { type: 'prompt', text },
    { type: 'text', text: `The answer to ${text}` },
    { type: 'turn_end', turn: turn + 1 },
  ])
  const lines = events.map((event, index) => json({ ms: index * 50, attempt: 1, event }))
  writeFileSync(join(folder, 'events.jsonl'), `${lines.join('\n')}\n`)
  writeFileSync(join(folder, 'end.json'), json({ ok: true, endedAtMs: startedAtMs + 1000 }))
}
