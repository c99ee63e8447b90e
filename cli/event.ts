// An agent's events as lines for people. PURE.
import type { AgentEvent, TurnResult } from '../lib/index'
import { showCount, showDuration } from './figure'

/** One line of an event, or undefined for those that say nothing by themselves. */
export function describeEvent(event: AgentEvent): string | undefined {
  switch (event.type) {
    case 'session':
      return `session ${event.sessionId}`
    case 'text':
      return event.delta ? undefined : oneLine(event.text)
    case 'tool_start':
      return `> ${event.name} ${oneLine(inputWords(event.input))}`
    case 'tool_end': {
      const end =
        event.exitCode === undefined ? (event.isError ? 'failed' : 'done') : `exit ${event.exitCode}`
      return `< ${event.name ?? 'tool'} ${end}`
    }
    case 'retry':
      return `retry: ${oneLine(event.message)}`
    case 'warning':
      return `warning: ${oneLine(event.message)}`
    case 'refused':
      return `refused: ${oneLine(event.what)}`
    case 'error':
      return `error (${event.kind}): ${oneLine(event.message)}`
    case 'noise':
      return `noise: ${oneLine(event.line)}`
    default:
      return undefined
  }
}

/** The events of a turn as lines, but for the answer: that is printed at the end, and once is enough. */
export class Story {
  /** Latest text of the agent: it may turn out to be the answer. */
  #held: { text: string; line: string } | undefined

  /** The lines that are to be shown now. */
  tell(event: AgentEvent): string[] {
    const line = describeEvent(event)
    if (line === undefined) return []
    if (event.type !== 'text') return [...this.#release(), line]
    const before = this.#release()
    this.#held = { text: event.text, line }
    return before
  }

  /** Lines that are still to be shown at the end. Without a result, as the turn failed, nothing else shows the last words. */
  end(result: TurnResult | undefined): string[] {
    return result?.text.includes(this.#held?.text.trim() ?? '') ? [] : this.#release()
  }

  #release(): string[] {
    const held = this.#held
    this.#held = undefined
    return held ? [held.line] : []
  }
}

/** A command as it stands, any other input as JSON. */
export function inputWords(input: unknown): string {
  const { command } = (input ?? {}) as { command?: unknown }
  return typeof command === 'string' ? command : input === undefined ? '' : JSON.stringify(input)
}

/** The turn's figures in one line. */
export function describeResult(result: TurnResult): string {
  const parts = [
    showDuration(result.durationMs),
    showCount(result.turns, 'model answer'),
    showCount(result.toolCalls, 'tool call'),
  ]
  if (result.usage) {
    const { inputTokens, outputTokens, costUsd } = result.usage
    parts.push(`${inputTokens} tokens in, ${outputTokens} out`)
    if (costUsd) parts.push(showCost(costUsd))
  }
  if (result.attempts > 1) parts.push(`${result.attempts} attempts`)
  if (result.sessionId) parts.push(`session ${result.sessionId}`)
  return parts.join(', ')
}

export function showCost(dollars: number): string {
  return `$${dollars.toFixed(dollars < 0.1 ? 4 : 2)}`
}

/** Fit for one line: controls and line breaks become blanks. */
export function oneLine(text: string, longest = 160, ending = '...'): string {
  const plain = text
    .slice(0, 4 * longest)
    .replace(/[\u0000-\u001f\u007f-\u009f\s]+/g, ' ')
    .trim()
  return plain.length > longest ? plain.slice(0, longest - ending.length) + ending : plain
}
