// Attempts at jobs with a handler, as metrics. There is a watch only where an SDK was set up when the attempt begins.
import type * as OpenTelemetry from '@opentelemetry/api'
import { elapsedMs } from '../host'
import { given, instrumentsBy, openTelemetry, quietly } from './open_telemetry'

/** Boundaries of the histogram, in seconds: handlers take milliseconds, or hours. */
const BOUNDARIES_S = [0.01, 0.04, 0.16, 0.64, 2.56, 10, 30, 60, 300, 900, 3600]

interface Instruments {
  durations: OpenTelemetry.Histogram
  active: OpenTelemetry.UpDownCounter
}

export class JobWatch {
  readonly #instruments: Instruments
  readonly #attributes: OpenTelemetry.Attributes
  readonly #startedMs = elapsedMs()

  static start(facts: { queue?: string; handler?: string }): JobWatch | undefined {
    const api = openTelemetry()
    const instruments = api ? quietly(() => instrumentsOf(api)) : undefined
    return instruments && new JobWatch(instruments, facts)
  }

  private constructor(instruments: Instruments, { queue, handler }: { queue?: string; handler?: string }) {
    this.#instruments = instruments
    this.#attributes = given({ 'sheepdog.job.queue': queue, 'sheepdog.job.handler': handler })
    quietly(() => instruments.active.add(1, this.#attributes))
  }

  /** `errorCode`: `undefined` if the handler returned. */
  end(errorCode: string | undefined): void {
    const seconds = (elapsedMs() - this.#startedMs) / 1000
    quietly(() => {
      this.#instruments.active.add(-1, this.#attributes)
      this.#instruments.durations.record(seconds, given({ ...this.#attributes, 'error.type': errorCode }))
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
