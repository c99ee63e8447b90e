// Records for the page's tests, written as docs/record.md says: as many as are wanted, without running anything.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const json = (value: unknown) => JSON.stringify(value)

/** A turn of so many events, tool calls mostly, one each 40 ms. */
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
