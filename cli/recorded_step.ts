// Events of a recorded run as lines for people: when each was heard, and what the tools printed. PURE.
import type { AgentEvent } from '../lib/index'
import { describeEvent } from './event'
import { showDuration } from './figure'

/** Lines of a longer text that are shown at its beginning and at its end. */
const headLines = 4
const tailLines = 8
/** Longest line that is shown whole. */
const mostColumns = 400

/** How much of a text is shown: some lines, or all of it. */
export interface Extent {
  full: boolean
}

/** Lines of a text, those in the middle left out. */
export function clippedLines(text: string, { full }: Extent): string[] {
  const lines = text.replace(/\s+$/, '').split('\n')
  if (full) return lines
  const shown = lines.map((line) => (line.length > mostColumns ? `${line.slice(0, mostColumns)}...` : line))
  const left = lines.length - headLines - tailLines
  // A note about one line would take as much room as the line.
  if (left <= 1) return shown
  const note = `... ${left} more lines (--full shows all)`
  return [...shown.slice(0, headLines), note, ...shown.slice(-tailLines)]
}

/** The prompt of a run, as the first thing that is shown. */
export function promptLines(prompt: string, extent: Extent): string[] {
  const [first = '', ...others] = clippedLines(prompt, extent)
  return [`prompt: ${first}`, ...others.map((line) => `        ${line}`)]
}

/** Lines of an event; `ms`: when it was heard, since the start. */
export function stepLines(event: AgentEvent, extent: Extent, ms?: number): string[] {
  const [first, ...others] = wordsOf(event, extent)
  if (first === undefined) return []
  const time = ms === undefined ? '' : `${showDuration(ms).padStart(8)}  `
  const indent = ' '.repeat(time.length)
  return [time + first, ...others.map((line) => indent + line)]
}

function wordsOf(event: AgentEvent, extent: Extent): string[] {
  // Events of a session that a turn does not have.
  const { type, text } = event as { type: string; text?: unknown }
  if (type === 'prompt' && typeof text === 'string') return promptLines(text, extent)
  if (event.type === 'text' && !event.delta && extent.full) return event.text.split('\n')
  const line = describeEvent(event)
  if (line === undefined) return []
  if (event.type === 'tool_end' && typeof event.output === 'string' && event.output.trim() !== '')
    return [line, ...clippedLines(event.output, extent).map((one) => `  ${one}`)]
  if (event.type === 'tool_start' && extent.full && event.input !== undefined)
    return [`> ${event.name}`, ...JSON.stringify(event.input, null, 2).split('\n')]
  return [line]
}
