// Spans of turns and their tools, by the names of OpenTelemetry's conventions for generative AI.
import type * as OpenTelemetry from '@opentelemetry/api'
import type { AgentName } from '../harness/agent_program'
import type { ProviderName } from '../harness/request'
import type { AgentUsage, TurnResult } from '../harness/result'
import { givenOf } from '../option'
import { environmentOf, errorType, fail, openTelemetry, quietly, scope, validSpan } from './open_telemetry'

type Span = OpenTelemetry.Span
type Attributes = OpenTelemetry.Attributes

/**
 * Names of the companies whose models an agent uses, as far as the conventions have one. An agent of many companies' models counts
 * as its own.
 */
const companies: Record<ProviderName, string> = {
  'claude-code': 'anthropic',
  codex: 'openai',
  gemini: 'gcp.gemini',
  opencode: 'opencode',
  copilot: 'github.copilot',
  qwen: 'qwen',
  kimi: 'kimi',
  pi: 'pi',
}

/** Ends the span of a tool; `problem`: why it counts as failed. */
export type EndTool = (exitCode: number | undefined, problem: string | undefined) => void

/** A turn's span; its tools are its children. */
export class TurnSpan {
  readonly #api: typeof OpenTelemetry
  readonly #span: Span
  readonly #context: OpenTelemetry.Context

  /** None where nobody can see it, nor go on with it. */
  static start(agent: AgentName, facts: { model?: string; sessionId?: string }): TurnSpan | undefined {
    const api = openTelemetry()
    if (!api) return undefined
    const attributes = {
      'gen_ai.operation.name': 'invoke_agent',
      'gen_ai.provider.name': companies[agent as ProviderName],
      'gen_ai.agent.name': agent,
      'gen_ai.request.model': facts.model,
      'gen_ai.conversation.id': facts.sessionId,
    }
    const parent = api.context.active()
    const kind = api.SpanKind.INTERNAL
    const options = { kind, attributes: givenOf(attributes) }
    const start = () => api.trace.getTracer(...scope()).startSpan(`invoke_agent ${agent}`, options, parent)
    const span = validSpan(api, start)
    return span && new TurnSpan(api, span, parent)
  }

  private constructor(api: typeof OpenTelemetry, span: Span, parent: OpenTelemetry.Context) {
    this.#api = api
    this.#span = span
    this.#context = api.trace.setSpan(parent, span)
  }

  /** Whether anybody will see what is written into it. */
  get isRecording(): boolean {
    return quietly(() => this.#span.isRecording()) ?? false
  }

  /** By which the agent's own spans become this one's children. */
  environment(): Record<string, string> {
    return environmentOf(this.#span)
  }

  /** `until`: when it goes on, where that is a usage limit's end. */
  onRetry(message: string, until: Date | undefined): void {
    const attributes = { 'sheepdog.message': message, 'sheepdog.until': until?.toISOString() }
    quietly(() => this.#span.addEvent('sheepdog.retry', givenOf(attributes)))
  }

  startTool(name: string, toolCallId: string): EndTool | undefined {
    const attributes = {
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': name,
      'gen_ai.tool.call.id': toolCallId,
    }
    const options = { kind: this.#api.SpanKind.INTERNAL, attributes }
    const tracer = () => this.#api.trace.getTracer(...scope())
    const span = quietly(() => tracer().startSpan(`execute_tool ${name}`, options, this.#context))
    if (!span) return undefined
    return (exitCode, problem) => {
      quietly(() => {
        if (exitCode !== undefined) span.setAttribute('process.exit.code', exitCode)
        if (problem !== undefined) fail(this.#api, span, problem)
      })
      quietly(() => span.end())
    }
  }

  end(result: TurnResult | undefined, error: Error | undefined): void {
    quietly(() => {
      if (result) this.#span.setAttributes(resultAttributes(result))
      if (error) fail(this.#api, this.#span, errorType(error), error.message)
    })
    quietly(() => this.#span.end())
  }
}

/** The variables that carry the active span on to a program that this one starts. */
export function activeEnvironment(): Record<string, string> {
  const api = openTelemetry()
  const span = api && validSpan(api, () => api.trace.getActiveSpan())
  return span ? environmentOf(span) : {}
}

function resultAttributes({ sessionId, model, usage, attempts, toolCalls }: TurnResult): Attributes {
  return givenOf({
    'gen_ai.conversation.id': sessionId,
    'gen_ai.response.model': model,
    ...(usage && usageAttributes(usage)),
    'sheepdog.turn.attempts': attempts,
    'sheepdog.turn.tool_calls': toolCalls,
  })
}

function usageAttributes({ inputTokens, outputTokens, cachedInputTokens, costUsd }: AgentUsage): Attributes {
  return {
    'gen_ai.usage.input_tokens': inputTokens,
    'gen_ai.usage.output_tokens': outputTokens,
    'gen_ai.usage.cache_read.input_tokens': cachedInputTokens,
    'sheepdog.usage.cost_usd': costUsd,
  }
}
