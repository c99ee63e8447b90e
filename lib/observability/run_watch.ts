// A program as channels, spans and metrics see it. There is a watch only where somebody looks when the run begins.
import type * as OpenTelemetry from '@opentelemetry/api'
import type { RunResult } from '../process'
import { basename } from 'node:path'
import { elapsedMs, folderName } from '../host'
import { channels, nextId, publish } from './channel'
import {
  environmentOf,
  errorType,
  fail,
  given,
  instrumentsBy,
  openTelemetry,
  quietly,
  scope,
} from './open_telemetry'

/** Facts with which a run begins. */
export interface RunFacts {
  command: string
  args: readonly string[]
  cwd?: string | URL
}

/** The boundaries that the conventions advise for durations of calls to agents: programs take as long. */
const BOUNDARIES_S = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]

export class RunWatch {
  readonly #facts: RunFacts
  readonly #api: typeof OpenTelemetry | null
  readonly #span: OpenTelemetry.Span | undefined
  readonly #id = nextId()
  readonly #startedMs = elapsedMs()

  static start(facts: RunFacts): RunWatch | undefined {
    const api = openTelemetry()
    if (!api && !channels.run.hasSubscribers) return undefined
    return new RunWatch(facts, api, api ? startSpan(api, facts.command) : undefined)
  }

  private constructor(
    facts: RunFacts,
    api: typeof OpenTelemetry | null,
    span: OpenTelemetry.Span | undefined,
  ) {
    this.#facts = facts
    this.#api = api
    this.#span = span
    const { command, args } = facts
    if (channels.run.hasSubscribers)
      publish('run', { phase: 'start', id: this.#id, command, args, cwd: facts.cwd ?? folderName() })
  }

  /** Variables by which the program's own spans become children of this one. */
  get environment(): Record<string, string> {
    return this.#span ? environmentOf(this.#span.spanContext()) : {}
  }

  /** Reports the end, whatever it is. */
  follow(result: Promise<RunResult>): void {
    result.then(
      (result) => this.#end(result, undefined),
      (error: Error) => this.#end(undefined, error),
    )
  }

  #end(result: RunResult | undefined, error: Error | undefined): void {
    const { command } = this.#facts
    const durationMs = elapsedMs() - this.#startedMs
    const seen = result ?? (error as { result?: RunResult } | undefined)?.result
    const type = error ? errorType(error) : seen?.ok === false ? 'PROCESS_FAILED' : undefined
    if (this.#api && this.#span) endSpan(this.#api, this.#span, seen, type, error?.message)
    if (this.#api) count(this.#api, command, type, durationMs)
    if (channels.run.hasSubscribers)
      publish('run', {
        phase: 'end',
        id: this.#id,
        command,
        durationMs,
        ...(result && { result }),
        ...(error && { error }),
      })
  }
}

function startSpan(api: typeof OpenTelemetry, command: string): OpenTelemetry.Span | undefined {
  const name = basename(command)
  const options = { kind: api.SpanKind.CLIENT, attributes: { 'process.executable.name': name } }
  const span = quietly(() => api.trace.getTracer(...scope()).startSpan(name, options))
  return span && api.isSpanContextValid(span.spanContext()) ? span : undefined
}

function endSpan(
  api: typeof OpenTelemetry,
  span: OpenTelemetry.Span,
  result: RunResult | undefined,
  type: string | undefined,
  message: string | undefined,
): void {
  if (result)
    span.setAttributes(
      given({
        'process.pid': result.pid,
        'process.exit.code': result.exitCode ?? undefined,
        'sheepdog.process.signal': result.signal ?? undefined,
      }),
    )
  if (type !== undefined) fail(api, span, type, message)
  quietly(() => span.end())
}

const durationsOf = instrumentsBy((meter) =>
  meter.createHistogram('sheepdog.run.duration', {
    description: 'Duration of programs that were run.',
    unit: 's',
    advice: { explicitBucketBoundaries: BOUNDARIES_S },
  }),
)

function count(
  api: typeof OpenTelemetry,
  command: string,
  type: string | undefined,
  durationMs: number,
): void {
  quietly(() => {
    const attributes = given({ 'process.executable.name': basename(command), 'error.type': type })
    durationsOf(api).record(durationMs / 1000, attributes)
  })
}
