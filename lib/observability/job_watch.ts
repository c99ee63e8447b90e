// Attempts at jobs with a handler, as metrics. There is a watch only where an SDK was set up when the attempt begins.
import type * as OpenTelemetry from '@opentelemetry/api'
import { elapsedMs } from '../host'
import { givenOf } from '../option'
import { instrumentsBy, openTelemetry, quietly } from './open_telemetry'

/** Boundaries of the histogram, in seconds: handlers take milliseconds, or hours. */
const BOUNDARIES_S = [0.01, 0.04, 0.16, 0.64, 2.56, 10, 30, 60, 300, 900, 3600]

interface Instruments {
  durations: OpenTelemetry.Histogram
  active: OpenTelemetry.UpDownCounter
}

/** Returns what reports the end; its `errorCode` is `undefined` if the handler returned. */
export function watchJob({ queue, handler }: { queue?: string; handler?: string }) {
  const api = openTelemetry()
  const instruments = api ? quietly(() => instrumentsOf(api)) : undefined
  if (!instruments) return undefined
  const startedMs = elapsedMs()
  const attributes = givenOf({ 'sheepdog.job.queue': queue, 'sheepdog.job.handler': handler })
  quietly(() => instruments.active.add(1, attributes))
  return (errorCode: string | undefined) => {
    const seconds = (elapsedMs() - startedMs) / 1000
    quietly(() => {
      instruments.active.add(-1, attributes)
      instruments.durations.record(seconds, givenOf({ ...attributes, 'error.type': errorCode }))
    })
  }
}

const instrumentsOf = instrumentsBy<Instruments>((meter) => ({
  durations: meter.createHistogram('sheepdog.job.duration', {
    description: "Duration of attempts at a fleet's jobs.",
    unit: 's',
    advice: { explicitBucketBoundaries: BOUNDARIES_S },
  }),
  active: meter.createUpDownCounter('sheepdog.job.active', {
    description: "Attempts at a fleet's jobs that run.",
    unit: '{attempt}',
  }),
}))
