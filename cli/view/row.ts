// An event as a row of the page, and what it unfolds to. PURE.
import type { AgentEvent } from '../../lib/index'
import { inputWords, oneLine } from '../event'
import type { Row } from './source'

const longest = 240
/** Longest text of one row: more is not shown. */
const mostText = 1 << 20

type Look = Pick<Row, 'label' | 'text' | 'tone'> & { body: string }

/** A recorded line: an event, or the judgement on an attempt. */
export interface EventLine {
  ms: number
  attempt: number
  event?: AgentEvent
  judged?: { stop?: unknown; retry?: string | null }
}

/**
 * The line of a file of events; `undefined` for one that is no JSON. An event that lacks what its row shows, as one of another
 * version may, is shown as it stands in the file.
 */
export function eventLineOf(text: string): EventLine | undefined {
  let read: Partial<EventLine> | null
  try {
    read = JSON.parse(text) as Partial<EventLine> | null
  } catch {
    return undefined
  }
  const { ms, attempt, event, judged } = Object(read) as Partial<EventLine>
  const line: EventLine = {
    ms: typeof ms === 'number' ? ms : 0,
    attempt: typeof attempt === 'number' ? attempt : 0,
    ...(event instanceof Object && { event }),
    ...(judged instanceof Object && { judged }),
  }
  if (isShown(line)) return line
  return { ms: line.ms, attempt: line.attempt, event: { type: 'noise', line: text.trimEnd() } }
}

function isShown({ event, judged }: EventLine): boolean {
  if (judged) return judged.retry == null || typeof judged.retry === 'string'
  if (event === undefined) return true
  if (typeof event.type !== 'string') return false
  const needed = neededFields[event.type] ?? []
  return needed.every(([name, type]) => typeof (event as Record<string, unknown>)[name] === type)
}

/** Fields that the row of an event, its time line or its sum is made of, and their types. */
const neededFields: Record<string, [name: string, type: 'string' | 'number'][] | undefined> = {
  text: [['text', 'string']],
  reasoning: [['text', 'string']],
  prompt: [['text', 'string']],
  tool_start: [['name', 'string']],
  usage: [
    ['inputTokens', 'number'],
    ['outputTokens', 'number'],
    ['cachedInputTokens', 'number'],
  ],
  retry: [['message', 'string']],
  warning: [['message', 'string']],
  refused: [['what', 'string']],
  session: [['sessionId', 'string']],
  noise: [['line', 'string']],
}

function lookOf({ event, judged }: EventLine): Look {
  if (judged) {
    const stop = stopName(judged.stop)
    if (stop) return look('stopped', stopWords[stop] ?? stop, 'bad')
    if (judged.retry) return look('retry', judged.retry, 'warn')
    return look('attempt', 'its process has ended', 'quiet')
  }
  switch (event?.type) {
    case 'text':
      return look('text', event.text, 'plain')
    case 'reasoning':
      return look('thinking', event.text, 'quiet')
    case 'tool_start':
      return look(event.name, inputWords(event.input), 'tool', inputText(event.input))
    case 'tool_end': {
      const exit =
        event.exitCode === undefined ? (event.isError ? 'failed' : 'done') : `exit ${event.exitCode}`
      const output = `${event.output ?? ''}`
      return look(`↳ ${exit}`, output || `${event.name ?? ''}`, event.isError ? 'bad' : 'tool', output)
    }
    case 'usage': {
      const cost = event.costUsd ? `  $${Number(event.costUsd).toFixed(4)}` : ''
      return look('usage', `${event.inputTokens} in, ${event.outputTokens} out${cost}`, 'quiet', '')
    }
    case 'error':
      return look('error', `${event.kind}: ${event.message}`, 'bad')
    case 'prompt':
      return look('prompt', event.text, 'good')
    case 'turn_start':
      return look(
        `turn ${event.turn}`,
        event.by === 'agent' ? 'begun by the agent itself' : 'begins',
        'quiet',
        '',
      )
    case 'turn_end':
      return look(`turn ${event.turn}`, 'is over', 'quiet', '')
    case 'retry':
    case 'warning':
      return look(event.type, event.message, 'warn')
    case 'refused':
      return look('refused', event.what, 'bad', '')
    case 'session':
      return look('session', event.sessionId, 'quiet', '')
    case 'end':
      return event.ok
        ? look('end', 'the agent ended its turn well', 'good', '')
        : look('end', 'the agent failed', 'bad', '')
    case 'noise':
      return look('noise', event.line, 'quiet')
    default:
      return look(event?.type ?? '?', pretty(event), 'quiet')
  }
}

/** The row of a line; the row before it came at `beforeMs`. */
export function rowOf(
  line: EventLine,
  index: number,
  { ms, attempt }: Pick<EventLine, 'ms' | 'attempt'>,
  beforeMs = 0,
): Row {
  const look = lookOf(line)
  const { label, text, tone } = look
  return { index, ms, attempt, label, text, tone, more: foldedLines(look), silenceMs: ms - beforeMs }
}

/** All that a row unfolds to, up to a bound. */
export function bodyOf(line: EventLine): { text: string; isCut: boolean } {
  const { body } = lookOf(line)
  return { text: body.slice(0, mostText), isCut: body.length > mostText }
}

/** The text that a search looks at: what the row shows, and what it unfolds to. */
export function searchedText(line: EventLine): string {
  const { label, text, body } = lookOf(line)
  return `${label}  ${body.length > text.length ? body : text}`
}

function look(label: string, text: string, tone: Row['tone'], body = text): Look {
  return { label: oneLine(label).slice(0, 40), text: oneLine(text, longest, '…'), tone, body }
}

/** How many lines a body unfolds to; 0 when the row shows all of it. */
function foldedLines({ text, body }: Look): number {
  return body === '' || body.trim() === text
    ? 0
    : body.split('\n', 1000).length + Math.floor(body.length / 160)
}

export const stopWords: Record<string, string> = {
  idle: 'killed: it was silent for too long',
  timedOut: 'killed: it took too long',
  aborted: 'killed: it was aborted',
  lingered: 'killed: it did not exit after its end of turn',
  noProgress: 'killed: it made no progress',
  otherSession: 'killed: it began another session',
  overBudget: 'killed: its budget was used up',
}

/** The core writes a name, or an object with it. */
export function stopName(stop: unknown): string | undefined {
  const name =
    typeof stop === 'string' ? stop : stop && typeof stop === 'object' ? Object.keys(stop)[0] : undefined
  return name && name[0]!.toLowerCase() + name.slice(1)
}

/** A command as it stands, any other input as JSON. */
function inputText(input: unknown): string {
  const isCommand = Object.keys(input ?? {}).length === 1
  return isCommand ? inputWords(input) : pretty(input)
}

function pretty(value: unknown): string {
  return value === undefined || value === null ? '' : JSON.stringify(value, null, 2)
}
