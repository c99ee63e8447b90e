// A program as channels, spans and metrics see it. There is a watch only where somebody looks when the run begins.
import type * as OpenTelemetry from '@opentelemetry/api'
import type { RunResult } from '../process'
import { basename } from 'node:path'
import { elapsedMs, folderName } from '../host'
import { givenOf } from '../option'
import { channels, nextId, publish } from './channel'
import {
  environmentOf,
  errorType,
  fail,
  instrumentsBy,
  openTelemetry,
  quietly,
  scope,
  validSpan,
} from './open_telemetry'

/** Facts with which a run begins. */
export interface RunFacts {
  command: string
  args: readonly string[]
  cwd?: string | URL
}

/** The boundaries that the conventions advise for durations of calls to agents: programs take as long. */
const BOUNDARIES_S = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]

export function watchRun(facts: RunFacts) {
  const api = openTelemetry()
  if (!api && !channels.run.hasSubscribers) return undefined
  const { command, args } = facts
  const span = api ? startSpan(api, command) : undefined
  const id = nextId()
  const startedMs = elapsedMs()
  if (channels.run.hasSubscribers)
    publish('run', { phase: 'start', id, command, args, cwd: facts.cwd ?? folderName() })
  const end = (result: RunResult | undefined, error: Error | undefined): void => {
    const durationMs = elapsedMs() - startedMs
    const seen = result ?? (error as { result?: RunResult } | undefined)?.result
    const type = error ? errorType(error) : seen?.ok === false ? 'PROCESS_FAILED' : undefined
    if (api && span) endSpan(api, span, seen, type, error?.message)
    if (api) count(api, command, type, durationMs)
    const how = { ...(result && { result }), ...(error && { error }) }
    if (channels.run.hasSubscribers) publish('run', { phase: 'end', id, command, durationMs, ...how })
  }
  return {
    /** Variables by which the program's own spans become children of this one. */
    environment: span ? environmentOf(span) : {},
    /** Reports the end, whatever it is. */
    follow(result: Promise<RunResult>): void {
      result.then(
        (result) => end(result, undefined),
        (error: Error) => end(undefined, error),
      )
    },
  }
}

function startSpan(api: typeof OpenTelemetry, command: string): OpenTelemetry.Span | undefined {
  const name = basename(command)
  const options = { kind: api.SpanKind.CLIENT, attributes: { 'process.executable.name': name } }
  return validSpan(api, () => api.trace.getTracer(...scope()).startSpan(name, options))
}

function endSpan(
  api: typeof OpenTelemetry,
  span: OpenTelemetry.Span,
  result: RunResult | undefined,
  type: string | undefined,
  message: string | undefined,
): void {
  quietly(() => {
    if (result)
      span.setAttributes(
        givenOf({
          'process.pid': result.pid,
          'process.exit.code': result.exitCode ?? undefined,
          'sheepdog.process.signal': result.signal ?? undefined,
        }),
      )
    if (type !== undefined) fail(api, span, type, message)
  })
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
    const attributes = givenOf({ 'process.executable.name': basename(command), 'error.type': type })
    durationsOf(api).record(durationMs / 1000, attributes)
  })
}
