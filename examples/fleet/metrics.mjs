// Writes the state of a fleet as metrics of OpenTelemetry: jobs by queue and state, workers, stuck jobs, and what is stored.
// import { Fleet } from 'sheepdog/fleet'
// import { PrometheusExporter } from '@opentelemetry/exporter-prometheus'
// exportFleet(await Fleet.connect(), new PrometheusExporter({ port: 9464 }))
import { metrics } from '@opentelemetry/api'
import { MeterProvider } from '@opentelemetry/sdk-metrics'

export function exportFleet(fleet, reader) {
  metrics.setGlobalMeterProvider(new MeterProvider({ readers: [reader] }))
  const meter = metrics.getMeter('my-fleet')
  const names = ['jobs', 'workers', 'stuck', 'bytes']
  const all = names.map((name) => meter.createObservableGauge(`fleet.${name}`))
  const [jobs, workers, stuck, bytes] = all
  meter.addBatchObservableCallback(async (result) => {
    const status = await fleet.status()
    result.observe(workers, status.workers.length)
    result.observe(stuck, status.stuck.length)
    for (const [queue, { queued, running }] of Object.entries(status.queues)) {
      result.observe(jobs, queued, { queue, state: 'queued' })
      result.observe(jobs, running, { queue, state: 'running' })
    }
    for (const [stream, room] of Object.entries(status.storage)) result.observe(bytes, room.bytes, { stream })
  }, all)
}
