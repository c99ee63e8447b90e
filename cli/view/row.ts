// An event as a row of the page, and what it unfolds to. PURE.
import { inputWords, oneLine } from '../event'
import type { EventLine } from '../event_line'
import type { Row } from './source'

const longest = 240
/** Longest text of one row: more is not shown. */
const mostText = 1 << 20

type Look = Pick<Row, 'label' | 'text' | 'tone'> & { body: string }

function lookOf({ event, judged }: EventLine): Look {
  if (judged) {
    const stop = stopWords(judged.stop)
    if (stop) return look('stopped', stop, 'bad')
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

const stops = new Map([
  ['idle', 'killed: it was silent for too long'],
  ['timedOut', 'killed: it took too long'],
  ['aborted', 'killed: it was aborted'],
  ['lingered', 'killed: it did not exit after its end of turn'],
  ['noProgress', 'killed: it made no progress'],
  ['otherSession', 'killed: it began another session'],
  ['overBudget', 'killed: its budget was used up'],
])

/** The reason of a stop in words. The core writes its name, or an object with the name. */
export function stopWords(stop: unknown): string | undefined {
  const [name = ''] = typeof stop === 'string' ? [stop] : Object.keys(Object(stop))
  const known = name.slice(0, 1).toLowerCase() + name.slice(1)
  return stops.get(known) ?? (known || undefined)
}

/** A command as it stands, any other input as JSON. */
function inputText(input: unknown): string {
  const isCommand = Object.keys(input ?? {}).length === 1
  return isCommand ? inputWords(input) : pretty(input)
}

function pretty(value: unknown): string {
  return value === undefined || value === null ? '' : JSON.stringify(value, null, 2)
}
