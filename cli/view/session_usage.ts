// Tokens and money of a session that is over: its end has no sum, so they are added up from its events.
import { lstat } from 'node:fs/promises'
import { join } from 'node:path'
import type { AgentEvent } from '../../lib/harness'
import { readRange } from '../../lib/harness/record_file'
import type { RunSummary } from './source'

export type Sum = Pick<RunSummary, 'tokens' | 'costUsd'>

/** A list reads no more of one session. */
const mostBytes = 4 << 20

/** None for a session with more events than are read: a part would look like the whole. */
export async function usageOfEvents(folder: string): Promise<Sum> {
  const path = join(folder, 'events.jsonl')
  const size = (await lstat(path).catch(() => undefined))?.size ?? 0
  const text = size <= mostBytes ? (await readRange(path, 0, size)).toString() : ''
  const events = text.split('\n').flatMap(usageOf)
  if (events.length === 0) return { tokens: null, costUsd: null }
  const add = (part: (event: Usage) => number) => events.reduce((sum, event) => sum + part(event), 0)
  const costUsd = add((event) => event.costUsd ?? 0)
  return { tokens: add((event) => event.inputTokens + event.outputTokens), costUsd: costUsd || null }
}

type Usage = Extract<AgentEvent, { type: 'usage' }>

function usageOf(line: string): Usage[] {
  if (!line.includes('"usage"')) return []
  try {
    const { event } = JSON.parse(line) as { event?: AgentEvent }
    return event?.type === 'usage' ? [event] : []
  } catch {
    return []
  }
}
