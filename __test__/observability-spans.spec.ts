// The spans and metrics that the real OpenTelemetry SDK gets of runs, turns, tools and sessions.
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { context, metrics, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { createRequire } from 'node:module'
import { afterAll, afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { Fleet } from '../entries/fleet.js'
import { run } from '..'
import { RuntimeClient, serveRuntime } from '../entries/runtime.js'
import {
  answer,
  counting,
  done,
  failed,
  failure,
  folder,
  played,
  player,
  session,
  tool,
} from './played-agent'
import { toolFailed, types, withTool } from './observed-agent'

const native = createRequire(import.meta.url)('../native/native.js')
const { version } = createRequire(import.meta.url)('../package.json') as { version: string }

describe('OpenTelemetry', () => {
  const exporter = new InMemorySpanExporter()
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
  beforeEach(() => {
    trace.setGlobalTracerProvider(provider)
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
    exporter.reset()
  })
  afterEach(() => {
    trace.disable()
    context.disable()
  })
  afterAll(() => provider.shutdown())

  /** Spans by name, when all that are expected have ended. */
  const spans = (count: number) =>
    vi.waitFor(
      () => {
        expect(exporter.getFinishedSpans()).toHaveLength(count)
        return Object.fromEntries(exporter.getFinishedSpans().map((span) => [span.name, span]))
      },
      { timeout: 30_000 },
    )

  it('gets a span of the turn, and in it one of each tool', async () => {
    const tracer = trace.getTracer('test')
    await tracer.startActiveSpan('caller', async (caller) => {
      await played(withTool, { model: 'm-1' }).run('List, please.')
      caller.end()
    })
    const found = await spans(3)
    const turn = found['invoke_agent codex']!
    const call = found['execute_tool command_execution']!
    expect(turn.attributes).toEqual({
      'gen_ai.operation.name': 'invoke_agent',
      'gen_ai.provider.name': 'openai',
      'gen_ai.agent.name': 'codex',
      'gen_ai.request.model': 'm-1',
      'gen_ai.conversation.id': 't-1',
      'gen_ai.usage.input_tokens': 10,
      'gen_ai.usage.output_tokens': 3,
      'gen_ai.usage.cache_read.input_tokens': 2,
      'sheepdog.turn.attempts': 1,
      'sheepdog.turn.tool_calls': 1,
    })
    expect(call.attributes).toEqual({
      'gen_ai.operation.name': 'execute_tool',
      'gen_ai.tool.name': 'command_execution',
      'gen_ai.tool.call.id': 'c',
      'process.exit.code': 0,
    })
    expect(turn.instrumentationScope).toMatchObject({ name: 'sheepdog', version })
    expect(turn.parentSpanContext?.spanId).toBe(found.caller!.spanContext().spanId)
    expect(call.parentSpanContext?.spanId).toBe(turn.spanContext().spanId)
    expect(turn.status.code).toBe(SpanStatusCode.UNSET)
    expect(JSON.stringify([turn.attributes, call.attributes, turn.events])).not.toContain('List, please.')
  })

  it('gets a span of a program, which may continue it', async () => {
    const tracer = trace.getTracer('test')
    const { stdout, pid } = await tracer.startActiveSpan('caller', async (caller) => {
      const result = await run('/bin/sh', ['-c', 'echo "$TRACEPARENT"; exit 3', 'a secret'])
      caller.end()
      return result
    })
    const { sh, caller } = await spans(2)
    const { traceId, spanId } = sh!.spanContext()
    expect(stdout).toBe(`00-${traceId}-${spanId}-01\n`)
    expect(sh).toMatchObject({
      kind: SpanKind.CLIENT,
      attributes: {
        'process.executable.name': 'sh',
        'process.pid': pid,
        'process.exit.code': 3,
        'error.type': 'PROCESS_FAILED',
      },
      status: { code: SpanStatusCode.ERROR },
      instrumentationScope: { name: 'sheepdog', version },
    })
    expect(sh!.parentSpanContext?.spanId).toBe(caller!.spanContext().spanId)
    expect(JSON.stringify(sh!.attributes)).not.toContain('a secret')
  })

  it('is told how a program ended that was stopped, killed or never started', async () => {
    expect(
      (await run('sh', ['-c', 'echo "[$TRACEPARENT]"'], { env: { TRACEPARENT: undefined } })).stdout,
    ).toBe('[]\n')
    const { sh } = await spans(1)
    expect([sh!.attributes['process.exit.code'], sh!.status.code]).toEqual([0, SpanStatusCode.UNSET])
    await run('sh', ['-c', 'kill -TERM $$'])
    await run('sleep', ['60'], { timeoutMs: 50 }).catch(() => {})
    await run('no-such-program-anywhere').catch(() => {})
    await spans(4)
    const ends = exporter.getFinishedSpans().slice(1)
    expect(
      ends.map(({ attributes }) => [attributes['error.type'], attributes['sheepdog.process.signal']]),
    ).toEqual([
      ['PROCESS_FAILED', 'SIGTERM'],
      ['PROCESS_TIMED_OUT', 'SIGTERM'],
      ['PROCESS_NOT_FOUND', undefined],
    ])
  })

  function collected() {
    const memory = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
    const reader = new PeriodicExportingMetricReader({ exporter: memory, exportIntervalMillis: 1e9 })
    const meters = new MeterProvider({ readers: [reader] })
    metrics.setGlobalMeterProvider(meters)
    onTestFinished(async () => {
      metrics.disable()
      await meters.shutdown()
    })
    return { memory, meters }
  }

  it("counts a worker's attempts at jobs, those that run and those that ended", async () => {
    const { memory, meters } = collected()
    const points = async () => {
      await meters.forceFlush()
      const [scope] = memory.getMetrics().at(-1)!.scopeMetrics
      return Object.fromEntries(
        scope!.metrics.map(({ descriptor, dataPoints }) => [
          descriptor.name,
          dataPoints.map(({ attributes, value }) => [
            attributes['sheepdog.job.queue'],
            attributes['sheepdog.job.handler'],
            attributes['error.type'],
            typeof value === 'number' ? value : value.count,
          ]),
        ]),
      )
    }
    await using fleet = await Fleet.connect({ memory: true })
    let go = () => {}
    const held = new Promise<void>((resolve) => (go = resolve))
    const bad = () => Promise.reject(Object.assign(new Error('no'), { code: 'E_NO' }))
    await fleet.work({ handlers: { wait: () => held, bad } })
    const jobs = [
      await fleet.submit({ handler: 'wait' }),
      await fleet.submit({ handler: 'wait' }),
      await fleet.submit({ handler: 'bad', attempts: 1 }),
    ]
    await vi.waitFor(async () =>
      expect(await points()).toEqual({
        'sheepdog.job.duration': [['default', 'bad', 'E_NO', 1]],
        'sheepdog.job.active': [
          ['default', 'wait', undefined, 2],
          ['default', 'bad', undefined, 0],
        ],
      }),
    )
    go()
    await Promise.allSettled(jobs.map((job) => job.result))
    expect((await points())['sheepdog.job.active']).toEqual([
      ['default', 'wait', undefined, 0],
      ['default', 'bad', undefined, 0],
    ])
  })

  it('counts programs by name and failure', async () => {
    const { memory, meters } = collected()
    await run('true')
    await run('true')
    await run('false')
    // Counted when the promise has settled, by a callback of its own.
    await vi.waitFor(async () => {
      await meters.forceFlush()
      const [scope] = memory.getMetrics().at(-1)!.scopeMetrics
      expect(scope!.scope).toMatchObject({ name: 'sheepdog', version })
      const [durations] = scope!.metrics
      expect(durations!.descriptor).toMatchObject({ name: 'sheepdog.run.duration', unit: 's' })
      expect(
        durations!.dataPoints.map(({ attributes, value }) => [
          attributes,
          (value as { count: number }).count,
        ]),
      ).toEqual([
        [{ 'process.executable.name': 'true' }, 2],
        [{ 'process.executable.name': 'false', 'error.type': 'PROCESS_FAILED' }, 1],
      ])
    })
  })

  it('is told what failed, by the code', async () => {
    await failure(played([session, tool, toolFailed, failed('401 Unauthorized'), { exit: 1 }]).run('hi'))
    const found = await spans(2)
    expect(found['invoke_agent codex']).toMatchObject({
      attributes: { 'error.type': 'AGENT_FAILED' },
      status: { code: SpanStatusCode.ERROR },
    })
    expect(found['execute_tool command_execution']).toMatchObject({
      attributes: { 'error.type': 'tool_error', 'process.exit.code': 2 },
      status: { code: SpanStatusCode.ERROR },
    })
  })

  it('is handed on to the agent, unless the caller has other plans', async () => {
    const tells = [session, { tell: 'env' }, done]
    const parentOf = async (env?: Record<string, string | undefined>) => {
      const { text } = await played(tells, { env }).run('hi')
      return (JSON.parse(text) as Record<string, string>).TRACEPARENT
    }
    const parent = await parentOf()
    const { 'invoke_agent codex': turn } = await spans(1)
    const { traceId, spanId } = turn!.spanContext()
    expect(parent).toBe(`00-${traceId}-${spanId}-01`)
    expect(await parentOf({ TRACEPARENT: 'mine' })).toBe('mine')
    expect(await parentOf({ TRACEPARENT: undefined })).toBeUndefined()
  })

  it('is handed on to the agent behind a runtime', async () => {
    const plan = [session, { tell: 'env' }, done]
    const askedOf = async (env?: Record<string, string | undefined>) => {
      const harness = { binary: ['node', player, JSON.stringify(plan)], cwd: folder, env }
      await using server = await serveRuntime({ port: 0, provider: 'codex', harness })
      const client = await RuntimeClient.connect(server.url)
      const { data } = await client.query('hi', { systemPrompt: '', model: '' })
      await client.close()
      return (JSON.parse((data as { text: string }).text) as Record<string, string>).TRACEPARENT
    }
    const parent = await askedOf()
    const { 'invoke_agent codex': turn } = await spans(1)
    const { traceId, spanId } = turn!.spanContext()
    expect(parent).toBe(`00-${traceId}-${spanId}-01`)
    expect(await askedOf({ TRACEPARENT: 'mine' })).toBe('mine')
    expect(await askedOf({ TRACEPARENT: undefined })).toBeUndefined()
  })

  it('is told of a retry, and until when a usage limit is waited out', async () => {
    const at = Math.ceil(Date.now() / 1000) + 1
    const limited = failed(`You've hit your usage limit. {"resets_at":${at}}`)
    const plan = [counting([session, limited, { exit: 1 }], answer)]
    await played(plan, { retry: { waitForResetMs: 60_000 } }).run('hi')
    const { 'invoke_agent codex': turn } = await spans(1)
    expect(turn!.events.map(({ name, attributes }) => ({ name, attributes }))).toEqual([
      {
        name: 'sheepdog.retry',
        attributes: {
          'sheepdog.message': 'codex is at its usage limit: the turn continues when the limit ends',
          'sheepdog.until': new Date(at * 1000).toISOString(),
        },
      },
    ])
  })

  it('harms no turn when what others hang into it throws', async () => {
    const broken = () => {
      throw new Error('no room for spans')
    }
    const quiet = { forceFlush: async () => {}, shutdown: async () => {}, onStart() {}, onEnd() {} }
    for (const processor of [
      { ...quiet, onStart: broken },
      { ...quiet, onEnd: broken },
    ]) {
      trace.disable()
      trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [processor] }))
      const turn = played(withTool).start('hi')
      expect(await types(turn)).toContain('tool_end')
      expect((await turn.result).text).toBe('Done.')
    }
  })

  it.each([
    'setAttribute',
    'setAttributes',
    'setStatus',
    'addEvent',
    'end',
    'isRecording',
    'spanContext',
  ] as const)("harms nothing when a span's %s throws", async (name) => {
    const started = trace.getTracer('test').startSpan('made')
    const broken = Object.assign(Object.create(started), {
      [name]() {
        throw new Error('no room for spans')
      },
    })
    const startSpan = () => broken
    const own = { getTracer: () => ({ startSpan, startActiveSpan: startSpan }) }
    trace.disable()
    trace.setGlobalTracerProvider(own)
    const turn = played([counting([session, failed('529 overloaded'), { exit: 1 }], withTool)], {
      retry: { baseDelayMs: 1 },
    }).start('hi')
    expect(await types(turn)).toContain('tool_end')
    expect((await turn.result).text).toBe('Done.')
    expect((await run('sh', ['-c', 'exit 3'])).exitCode).toBe(3)
  })

  it('costs no events when no program has set it up', async () => {
    trace.disable()
    const opened = vi.spyOn(native.NativeTurn.prototype, 'events')
    onTestFinished(() => opened.mockRestore())
    await played(withTool).run('hi')
    expect(opened).toHaveBeenCalledTimes(0)
  })
})
