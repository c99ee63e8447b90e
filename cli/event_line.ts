// Events that were written down, in a file of events or in a job's log: anybody can have written them, so each is looked at before it is
// shown. PURE.
import { isFigure } from './figure'
import { toJson } from '../lib/json'
import type { AgentEvent } from '../lib/index'

/** A recorded line: an event, or the judgement on an attempt. */
export interface EventLine {
  ms: number
  attempt: number
  event?: AgentEvent
  judged?: { stop?: unknown; retry?: string | null }
}

type FieldType = 'string' | 'number' | 'boolean'

/** Fields that the faces show of an event, and their types. Those with a question mark may be absent. */
const shownFields = new Map<unknown, [name: string, type: FieldType][]>(
  Object.entries({
    text: { text: 'string' },
    reasoning: { text: 'string' },
    prompt: { text: 'string' },
    tool_start: { name: 'string' },
    tool_end: { 'name?': 'string', 'output?': 'string', 'exitCode?': 'number', 'isError?': 'boolean' },
    usage: {
      inputTokens: 'number',
      outputTokens: 'number',
      cachedInputTokens: 'number',
      'costUsd?': 'number',
    },
    retry: { message: 'string' },
    warning: { message: 'string' },
    refused: { what: 'string' },
    error: { kind: 'string', message: 'string' },
    session: { sessionId: 'string' },
    noise: { line: 'string' },
    turn_start: { turn: 'number' },
    turn_end: { turn: 'number' },
  } satisfies Record<string, Record<string, FieldType>>).map(([type, fields]) => [
    type,
    Object.entries(fields),
  ]),
)

/**
 * The event as it is, where it has the fields that are shown of its type. Any other one, as a handler's own event or one of another
 * version, is a line of text: its JSON, or how it stands in its file.
 */
export function toldEvent(event: object, text?: string): AgentEvent {
  return isShown(event as Record<string, unknown>)
    ? (event as AgentEvent)
    : { type: 'noise', line: text ?? toJson('event', event) }
}

function isShown(event: Record<string, unknown>): boolean {
  const fields = shownFields.get(event.type) ?? []
  return typeof event.type === 'string' && fields.every(([name, type]) => isOf(event, name, type))
}

function isOf(event: Record<string, unknown>, name: string, type: FieldType): boolean {
  const value = event[name.replace('?', '')]
  if (value === undefined) return name.endsWith('?')
  return type === 'number' ? isFigure(value) : typeof value === type
}

/** The line of a file of events; `undefined` for one that is no JSON. */
export function eventLineOf(text: string): EventLine | undefined {
  let read: unknown
  try {
    read = JSON.parse(text)
  } catch {
    return undefined
  }
  const { ms, attempt, event, judged } = Object(read) as Record<keyof EventLine, unknown>
  const figure = (value: unknown) => (isFigure(value) && value > 0 ? value : 0)
  const line = { ms: figure(ms), attempt: figure(attempt) }
  if (judged instanceof Object) {
    const { retry } = judged as { retry?: unknown }
    const isKnown = retry == null || typeof retry === 'string'
    return isKnown ? { ...line, judged } : { ...line, event: { type: 'noise', line: text.trimEnd() } }
  }
  return event instanceof Object ? { ...line, event: toldEvent(event, text.trimEnd()) } : line
}
