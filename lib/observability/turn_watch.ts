// A turn as channels and spans see it. There is a watch only where somebody looks when the turn begins.
import type { AgentEvent } from '../harness/event'
import type { AgentName } from '../harness/agent_program'
import type { TurnResult } from '../harness/result'
import { elapsedMs } from '../host'
import { channels, nextId, publish, type TurnMessage } from './channel'
import { TurnSpan, type EndTool } from './span'

/** Facts with which a turn begins. */
export type TurnFacts = Omit<Extract<TurnMessage, { phase: 'start' }>, 'phase' | 'id'>

interface OpenTool {
  id: number
  name: string
  startedMs: number
  endSpan?: EndTool
}

export class TurnWatch {
  readonly #id = nextId()
  readonly #provider: AgentName
  readonly #startedMs = elapsedMs()
  readonly #tools = new Map<string, OpenTool>()

  /** `hasReader`: its events may be iterated. */
  static start(facts: TurnFacts, hasReader: boolean): TurnWatch | undefined {
    const span = TurnSpan.start(facts.provider, { model: facts.model, sessionId: facts.resume })
    if (!span && !channels.turn.hasSubscribers && !channels.tool.hasSubscribers) return undefined
    return new TurnWatch(facts, span, hasReader)
  }

  private constructor(
    facts: TurnFacts,
    private readonly span: TurnSpan | undefined,
    readonly hasReader: boolean,
  ) {
    this.#provider = facts.provider
    if (channels.turn.hasSubscribers) publish('turn', { phase: 'start', id: this.#id, ...facts })
  }

  /** Whether the turn's events are worth bringing to JavaScript although nobody iterates them. */
  get wantsEvents(): boolean {
    return channels.tool.hasSubscribers || this.span?.isRecording === true
  }

  /** Variables that are added to the agent's environment. */
  get environment(): Record<string, string> {
    return this.span?.environment() ?? {}
  }

  onEvent(event: AgentEvent): void {
    switch (event.type) {
      case 'tool_start':
        return this.#startTool(event.id, event.name, event.input)
      case 'tool_end':
        return this.#endTool(event.id, event)
      case 'retry':
        return this.span?.onRetry(event.message, event.until)
    }
  }

  end(result: TurnResult | undefined, error: Error | undefined): void {
    for (const toolCallId of [...this.#tools.keys()]) this.#endTool(toolCallId, undefined)
    this.span?.end(result ?? (error as { result?: TurnResult } | undefined)?.result, error)
    if (!channels.turn.hasSubscribers) return
    const durationMs = elapsedMs() - this.#startedMs
    publish('turn', { phase: 'end', id: this.#id, provider: this.#provider, durationMs, result, error })
  }

  #startTool(toolCallId: string, name: string, input: unknown): void {
    // A second start is the same call, told again.
    if (this.#tools.has(toolCallId)) return
    const id = nextId()
    const endSpan = this.span?.startTool(name, toolCallId)
    this.#tools.set(toolCallId, { id, name, startedMs: elapsedMs(), endSpan })
    if (channels.tool.hasSubscribers)
      publish('tool', { phase: 'start', id, turn: this.#id, toolCallId, name, input })
  }

  /** Without an end of its own: the turn ended first. */
  #endTool(toolCallId: string, end: Extract<AgentEvent, { type: 'tool_end' }> | undefined): void {
    const tool = this.#tools.get(toolCallId)
    if (!tool) return
    this.#tools.delete(toolCallId)
    const { id, name, startedMs, endSpan } = tool
    const { output, exitCode, isError = true } = end ?? {}
    const isCut = end === undefined
    endSpan?.(exitCode, isCut ? 'turn_ended' : isError ? 'tool_error' : undefined)
    if (!channels.tool.hasSubscribers) return
    const durationMs = elapsedMs() - startedMs
    const ended = { id, turn: this.#id, toolCallId, name, durationMs, output, exitCode, isError, isCut }
    publish('tool', { phase: 'end', ...ended })
  }
}
