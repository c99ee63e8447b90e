// The API of OpenTelemetry, where it is installed, and what all users of it share. The package is no dependency: a program that wants
// spans or metrics has it, and has set up an SDK.
import type * as OpenTelemetry from '@opentelemetry/api'
import { packageVersion } from '../version'
import { warnOnce } from '../warning'

/** Undefined: not looked for yet; null: not installed. */
let api: typeof OpenTelemetry | null | undefined

/** The API keeps what is set up under this name, in all its releases since 1.0. Without it all its work comes to nothing. */
const setUp = Symbol.for('opentelemetry.js.api.1')

export function openTelemetry(): typeof OpenTelemetry | null {
  if (api === undefined) {
    if (!(setUp in globalThis)) return null
    try {
      api = require('@opentelemetry/api') as typeof OpenTelemetry
    } catch {
      api = null
    }
  }
  return api
}

/** Code that others hang into their SDK may throw: that is no fault of a turn's. */
export function quietly<T>(act: () => T): T | undefined {
  try {
    return act()
  } catch (error) {
    warnOnce(`OpenTelemetry: a span or a metric could not be written: ${String(error)}`)
    return undefined
  }
}

let known: [name: string, version: string | undefined] | undefined

/** Name and version of the instrumentation scope: this package. */
export function scope(): [name: string, version: string | undefined] {
  return (known ??= ['sheepdog', packageVersion()])
}

/**
 * Instruments, made once for each meter: a program may set up its SDK at any time, and another one in its tests.
 * May throw, as all code of an SDK.
 */
export function instrumentsBy<T>(make: (meter: OpenTelemetry.Meter) => T): (api: typeof OpenTelemetry) => T {
  let kept: { meter: OpenTelemetry.Meter; made: T } | undefined
  return (api) => {
    const meter = api.metrics.getMeter(...scope())
    if (kept?.meter !== meter) kept = { meter, made: make(meter) }
    return kept.made
  }
}

/** The span, if somebody can see it or go on with it. */
export function validSpan(
  api: typeof OpenTelemetry,
  find: () => OpenTelemetry.Span | undefined,
): OpenTelemetry.Span | undefined {
  return quietly(() => {
    const span = find()
    return span && api.isSpanContextValid(span.spanContext()) ? span : undefined
  })
}

/** The variables that carry a span on to another program. */
export function environmentOf(span: OpenTelemetry.Span): Record<string, string> {
  const carried = quietly(() => {
    const { traceId, spanId, traceFlags, traceState } = span.spanContext()
    const flags = traceFlags.toString(16).padStart(2, '0')
    const state = traceState?.serialize()
    return { TRACEPARENT: `00-${traceId}-${spanId}-${flags}`, ...(state && { TRACESTATE: state }) }
  })
  return carried ?? {}
}

export function fail(
  api: typeof OpenTelemetry,
  span: OpenTelemetry.Span,
  type: string,
  message?: string,
): void {
  span.setAttribute('error.type', type)
  span.setStatus({ code: api.SpanStatusCode.ERROR, message })
}

export function errorType(error: Error): string {
  return (error as { code?: string }).code ?? error.name
}
