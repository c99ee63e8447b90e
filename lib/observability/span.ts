// Spans of OpenTelemetry, by the names of its conventions for generative AI, where its API is installed and a program has set up
// an SDK. The package is no dependency: whoever wants spans has it.
import type * as OpenTelemetry from '@opentelemetry/api'
import type { AgentUsage, TurnResult } from '../harness/result'
import { warnOnce } from '../warning'

type Span = OpenTelemetry.Span
type Attributes = OpenTelemetry.Attributes

/** Undefined: not looked for yet; null: not installed. */
let api: typeof OpenTelemetry | null | undefined

function openTelemetry(): typeof OpenTelemetry | null {
  if (api === undefined) {
    try {
      api = require('@opentelemetry/api') as typeof OpenTelemetry
    } catch {
      api = null
    }
  }
  return api
}

/** Code that others hang into their SDK may throw: that is no fault of a turn's. */
function quietly<T>(act: () => T): T | undefined {
  try {
    return act()
  } catch (error) {
    warnOnce(`OpenTelemetry: a span could not be written: ${String(error)}`)
    return undefined
  }
}

/** A turn's span; its tools are its children. */
export class TurnSpan {
  readonly #api: typeof OpenTelemetry
  readonly #span: Span
  readonly #context: OpenTelemetry.Context

  /** None where nobody can see it, nor go on with it. */
  static start(agent: string, facts: { model?: string; sessionId?: string }): TurnSpan | undefined {
    const api = openTelemetry()
    if (!api) return undefined
    const attributes = {
      'gen_ai.operation.name': 'invoke_agent',
      'gen_ai.agent.name': agent,
      'gen_ai.request.model': facts.model,
      'gen_ai.conversation.id': facts.sessionId,
    }
    const tracer = api.trace.getTracer('sheepdog')
    const parent = api.context.active()
    const kind = api.SpanKind.INTERNAL
    const options = { kind, attributes: given(attributes) }
    const span = quietly(() => tracer.startSpan(`invoke_agent ${agent}`, options, parent))
    return span && api.isSpanContextValid(span.spanContext()) ? new TurnSpan(api, span, parent) : undefined
  }

  private constructor(api: typeof OpenTelemetry, span: Span, parent: OpenTelemetry.Context) {
    this.#api = api
    this.#span = span
    this.#context = api.trace.setSpan(parent, span)
  }

  /** Whether anybody will see what is written into it. */
  get isRecording(): boolean {
    return this.#span.isRecording()
  }

  /** By which the agent's own spans become this one's children. */
  environment(): Record<string, string> {
    return environmentOf(this.#span.spanContext())
  }

  /** `until`: when it goes on, where that is a usage limit's end. */
  onRetry(message: string, until: Date | undefined): void {
    const attributes = { 'sheepdog.message': message, 'sheepdog.until': until?.toISOString() }
    this.#span.addEvent('sheepdog.retry', given(attributes))
  }

  startTool(name: string, toolCallId: string): ToolSpan | undefined {
    const attributes = {
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': name,
      'gen_ai.tool.call.id': toolCallId,
    }
    const tracer = this.#api.trace.getTracer('sheepdog')
    const kind = this.#api.SpanKind.INTERNAL
    const span = quietly(() => tracer.startSpan(`execute_tool ${name}`, { kind, attributes }, this.#context))
    return span && new ToolSpan(this.#api, span)
  }

  end(result: TurnResult | undefined, error: Error | undefined): void {
    if (result) this.#span.setAttributes(resultAttributes(result))
    if (error) fail(this.#api, this.#span, errorType(error), error.message)
    quietly(() => this.#span.end())
  }
}

export class ToolSpan {
  readonly #api: typeof OpenTelemetry
  readonly #span: Span

  constructor(api: typeof OpenTelemetry, span: Span) {
    this.#api = api
    this.#span = span
  }

  /** `problem`: why it counts as failed. */
  end(exitCode: number | undefined, problem: string | undefined): void {
    if (exitCode !== undefined) this.#span.setAttribute('process.exit.code', exitCode)
    if (problem !== undefined) fail(this.#api, this.#span, problem)
    quietly(() => this.#span.end())
  }
}

/** The variables that carry the active span on to a program that this one starts. */
export function activeEnvironment(): Record<string, string> {
  const api = openTelemetry()
  const context = api?.trace.getActiveSpan()?.spanContext()
  return api && context && api.isSpanContextValid(context) ? environmentOf(context) : {}
}

function environmentOf({ traceId, spanId, traceFlags, traceState }: OpenTelemetry.SpanContext) {
  const flags = traceFlags.toString(16).padStart(2, '0')
  const environment: Record<string, string> = { TRACEPARENT: `00-${traceId}-${spanId}-${flags}` }
  const state = traceState?.serialize()
  if (state) environment.TRACESTATE = state
  return environment
}

function fail(api: typeof OpenTelemetry, span: Span, type: string, message?: string): void {
  span.setAttribute('error.type', type)
  span.setStatus({ code: api.SpanStatusCode.ERROR, message })
}

function errorType(error: Error): string {
  return (error as { code?: string }).code ?? error.name
}

function resultAttributes({ sessionId, model, usage, attempts, toolCalls }: TurnResult): Attributes {
  return given({
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

function given(attributes: Attributes): Attributes {
  return Object.fromEntries(Object.entries(attributes).filter(([, value]) => value !== undefined))
}
