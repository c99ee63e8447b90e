// What others are told of runs, turns, tools and sessions: by channels of Node's, and by spans of the real SDK.
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { context, metrics, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import diagnostics from 'node:diagnostics_channel'
import { createRequire } from 'node:module'
import { afterAll, afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { join } from 'node:path'
import { Fleet } from '../entries/fleet.js'
import { Harness, run, spawn } from '..'
import { RuntimeClient, serveRuntime } from '../entries/runtime.js'
import type { RunMessage, SessionMessage, ToolMessage, TurnMessage } from '..'
import {
  answer,
  command,
  counting,
  done,
  failed,
  failure,
  folder,
  following,
  played,
  player,
  printed,
  said,
  session,
  tool,
} from './played-agent'
import { hasServer, newFolder } from './fleet-worker'

const native = createRequire(import.meta.url)('../native/native.js')
const { version } = createRequire(import.meta.url)('../package.json') as { version: string }

function heard<Message>(name: string): Message[] {
  const messages: Message[] = []
  const listener = (message: unknown) => void messages.push(message as Message)
  diagnostics.subscribe(name, listener)
  onTestFinished(() => void diagnostics.unsubscribe(name, listener))
  return messages
}

const toolDone = {
  line: {
    type: 'item.completed',
    item: { ...command, status: 'completed', exit_code: 0, aggregated_output: 'a\n' },
  },
}
const toolFailed = { line: { type: 'item.completed', item: { ...command, status: 'failed', exit_code: 2 } } }
const withTool = [session, tool, toolDone, said('Done.'), done]

describe('the channel sheepdog:run', () => {
  it('tells of a run that ended, and of one that failed', async () => {
    const messages = heard<RunMessage>('sheepdog:run')
    const result = await run('sh', ['-c', 'echo hi'])
    const missing = await spawn('no-such-program-anywhere').result.catch((error) => error)
    expect(messages).toEqual([
      { phase: 'start', id: expect.any(Number), command: 'sh', args: ['-c', 'echo hi'], cwd: process.cwd() },
      { phase: 'end', id: messages[0]!.id, command: 'sh', durationMs: expect.any(Number), result },
      expect.objectContaining({ phase: 'start', command: 'no-such-program-anywhere' }),
      expect.objectContaining({ phase: 'end', id: messages[2]!.id, error: missing }),
    ])
    expect(messages[2]!.id).not.toBe(messages[0]!.id)
  })
})

describe('the channels sheepdog:turn and sheepdog:tool', () => {
  it('tell of a turn and its tools, although nobody iterates it', async () => {
    const turns = heard<TurnMessage>('sheepdog:turn')
    const tools = heard<ToolMessage>('sheepdog:tool')
    const result = await played(withTool, { model: 'm-1' }).run('List, please.')
    expect(turns, 'told before the promise settles').toHaveLength(2)
    expect(turns[0]).toMatchObject({
      phase: 'start',
      provider: 'codex',
      prompt: 'List, please.',
      model: 'm-1',
    })
    expect(turns[1]).toEqual({
      phase: 'end',
      id: turns[0]!.id,
      provider: 'codex',
      durationMs: expect.any(Number),
      result,
      error: undefined,
    })
    const shared = { id: tools[0]!.id, turn: turns[0]!.id, toolCallId: 'c', name: 'command_execution' }
    expect(tools).toEqual([
      { phase: 'start', ...shared, input: expect.anything() },
      {
        phase: 'end',
        ...shared,
        durationMs: expect.any(Number),
        output: 'a\n',
        exitCode: 0,
        isError: false,
        isCut: false,
      },
    ])
  })

  it('tell of a turn that failed, and that a tool was cut by it', async () => {
    const turns = heard<TurnMessage>('sheepdog:turn')
    const tools = heard<ToolMessage>('sheepdog:tool')
    const error = await failure(played([session, tool, failed('401 Unauthorized'), { exit: 1 }]).run('hi'))
    expect(turns).toHaveLength(2)
    expect(turns[1]).toMatchObject({ phase: 'end', error })
    expect(tools[1]).toMatchObject({ phase: 'end', isError: true, isCut: true })
  })

  it('tell of a turn that was never started', async () => {
    const turns = heard<TurnMessage>('sheepdog:turn')
    await failure(played(answer).run('hi', { signal: AbortSignal.abort() }))
    expect(turns.map(({ phase }) => phase)).toEqual(['start', 'end'])
    expect(turns[1]).toMatchObject({ error: { code: 'AGENT_ABORTED' } })
  })

  it('change nothing for whoever iterates the turn: all, late, or not to the end', async () => {
    const plain = await types(played(withTool).start('hi'))
    const tools = heard<ToolMessage>('sheepdog:tool')
    expect(await types(played(withTool).start('hi'))).toEqual(plain)

    const late = played(withTool).start('hi')
    await late.result
    expect(await types(late)).toEqual(plain)

    const left = played(withTool).start('hi')
    for await (const event of left) if (event.type === 'session') break
    await left.result
    expect(() => left[Symbol.asyncIterator]()).toThrow(/already being read/)
    await vi.waitFor(
      () => expect(tools.map(({ phase }) => phase)).toEqual(Array(3).fill(['start', 'end']).flat()),
      { timeout: 30_000 },
    )
  })

  it('do not hold back the result from a reader that stands still', async () => {
    heard('sheepdog:tool')
    const many = Array.from({ length: 300 }, (_, index) => said(`${index}`))
    const turn = played([printed(session, ...many, done)]).start('hi')
    const seen: string[] = []
    for await (const { type } of turn) {
      if (seen.length === 0) expect((await turn.result).text).toBe('299')
      seen.push(type)
    }
    expect(seen.filter((type) => type === 'text')).toHaveLength(300)
  })

  it('let a slow reader slow the agent, as ever', async () => {
    heard('sheepdog:tool')
    const many = Array.from({ length: 5000 }, (_, index) => said(`${index} ${'x'.repeat(2000)}`))
    const turn = played([printed(session, ...many, done)]).start('hi')
    let count = 0
    for await (const event of turn) {
      if (event.type !== 'text') continue
      if (count++ === 0) await new Promise((resolve) => setTimeout(resolve, 300))
    }
    expect(count).toBe(5000)
    expect((await turn.result).text).toMatch(/^4999 x/)
  })

  it('bring no events to JavaScript when nobody subscribed', async () => {
    const opened = vi.spyOn(native.NativeTurn.prototype, 'events')
    onTestFinished(() => opened.mockRestore())
    await played(withTool).run('hi')
    expect(opened).toHaveBeenCalledTimes(0)
    heard('sheepdog:turn')
    await played(withTool).run('hi')
    expect(opened, 'turns alone need none').toHaveBeenCalledTimes(0)
    heard('sheepdog:tool')
    await played(withTool).run('hi')
    expect(opened).toHaveBeenCalledTimes(1)
  })
})

describe('the channel sheepdog:session', () => {
  it('tells of a session, and the turns name it', async () => {
    const sessions = heard<SessionMessage>('sheepdog:session')
    const turns = heard<TurnMessage>('sheepdog:turn')
    const session = await following([{ say: 'Hello.' }]).open()
    await session.prompt('hello')
    await session.close()
    await session.close()
    const shared = { id: sessions[0]!.id, provider: 'scripted', durationMs: expect.any(Number) }
    expect(sessions).toEqual([
      { phase: 'start', id: shared.id, provider: 'scripted', cwd: folder, resume: undefined },
      { phase: 'open', ...shared, sessionId: 'scripted-1' },
      { phase: 'end', ...shared, sessionId: 'scripted-1', error: undefined },
    ])
    expect(turns.map(({ phase }) => phase)).toEqual(['start', 'end'])
    expect(turns[0]).toMatchObject({ session: shared.id, resume: 'scripted-1' })
  })

  it('tells why one could not be opened', async () => {
    const sessions = heard<SessionMessage>('sheepdog:session')
    const binary = ['node', '-e', 'process.exit(3)']
    const error = await failure(new Harness({ provider: 'gemini' }).open({ binary }))
    expect(sessions.map(({ phase }) => phase)).toEqual(['start', 'end'])
    expect(sessions[1]).toMatchObject({ error })
  })
})

describe('turns that the core runs', () => {
  const binary = ['node', player, JSON.stringify(withTool)]
  const toldOf = (turns: TurnMessage[], tools: ToolMessage[]) => {
    const { id } = turns[0]!
    expect(tools).toEqual([
      expect.objectContaining({ phase: 'start', turn: id, toolCallId: 'c', input: expect.anything() }),
      expect.objectContaining({ phase: 'end', turn: id, output: 'a\n', exitCode: 0, isCut: false }),
    ])
    expect(turns[1]).toMatchObject({ phase: 'end', id, provider: 'codex', result: { text: 'Done.' } })
    expect(turns).toHaveLength(2)
  }

  it('behind a runtime tell it as any other, without the secrets of the client', async () => {
    await using server = await serveRuntime({ port: 0, provider: 'codex', harness: { binary, cwd: folder } })
    const client = await RuntimeClient.connect(server.url)
    onTestFinished(() => client.close().then(() => {}))
    const query = { systemPrompt: '', model: 'm-1' }
    await client.query('Nobody looks.', query)
    const turns = heard<TurnMessage>('sheepdog:turn')
    const tools = heard<ToolMessage>('sheepdog:tool')
    await client.query('List with hunter2-hunter2, please.', {
      ...query,
      secrets: ['hunter2-hunter2'],
    })
    await vi.waitFor(() => expect(turns).toHaveLength(2), { timeout: 30_000 })
    toldOf(turns, tools)
    expect(turns[0]).toMatchObject({ phase: 'start', provider: 'codex', model: 'm-1', cwd: folder })
    expect((turns[0] as { prompt: string }).prompt).toBe('List with [REDACTED], please.')
  })

  it('behind a runtime tell that they failed, and nobody who looks holds them up', async () => {
    const plan = [session, tool, failed('401 Unauthorized'), { exit: 1 }]
    const harness = { binary: ['node', player, JSON.stringify(plan)], cwd: folder }
    await using server = await serveRuntime({ port: 0, provider: 'codex', harness })
    const client = await RuntimeClient.connect(server.url)
    onTestFinished(() => client.close().then(() => {}))
    const turns = heard<TurnMessage>('sheepdog:turn')
    const tools = heard<ToolMessage>('sheepdog:tool')
    await expect(client.query('hi', { systemPrompt: '', model: 'm' })).rejects.toThrow()
    await vi.waitFor(() => expect(turns).toHaveLength(2), { timeout: 30_000 })
    expect(turns[1]).toMatchObject({ phase: 'end', error: { code: 'AGENT_FAILED', kind: 'auth' } })
    expect(tools[1]).toMatchObject({ phase: 'end', isCut: true })
  })

  it('of a kept session tell it as any other, without the secrets of the client', async () => {
    const agent = join(__dirname, '../fixtures/acp/agent.mjs')
    const harness = { binary: ['node', agent], cwd: folder }
    await using server = await serveRuntime({ port: 0, provider: 'gemini', harness, keepSession: true })
    const client = await RuntimeClient.connect(server.url)
    onTestFinished(() => client.close().then(() => {}))
    const turns = heard<TurnMessage>('sheepdog:turn')
    const tools = heard<ToolMessage>('sheepdog:tool')
    const query = { systemPrompt: '', model: '', secrets: ['hunter2-hunter2'] }
    await client.query('tool', query)
    await client.query('echo hunter2-hunter2', query)
    await vi.waitFor(() => expect(turns).toHaveLength(4), { timeout: 30_000 })
    expect(turns.map(({ phase }) => phase)).toEqual(['start', 'end', 'start', 'end'])
    expect(turns[0]).toMatchObject({ provider: 'gemini', prompt: 'tool', cwd: folder, resume: 'session-1' })
    expect(turns[1]).toMatchObject({ id: turns[0]!.id, result: { text: 'It says hi.', toolCalls: 1 } })
    expect(tools).toEqual([
      expect.objectContaining({ phase: 'start', turn: turns[0]!.id, name: 'Bash' }),
      expect.objectContaining({ phase: 'end', turn: turns[0]!.id, output: 'hi\n', isCut: false }),
    ])
    expect(turns[2]).toMatchObject({ prompt: 'echo [REDACTED]' })
    expect(turns[3]).toMatchObject({ result: { text: 'echo [REDACTED]' } })
  })

  it('of a kept session that could not be opened tell why', async () => {
    const harness = { binary: ['node', '-e', 'process.exit(3)'], cwd: folder }
    await using server = await serveRuntime({ port: 0, provider: 'gemini', harness, keepSession: true })
    const client = await RuntimeClient.connect(server.url)
    onTestFinished(() => client.close().then(() => {}))
    const turns = heard<TurnMessage>('sheepdog:turn')
    await expect(client.query('hi', { systemPrompt: '', model: '' })).rejects.toThrow()
    await vi.waitFor(() => expect(turns).toHaveLength(2), { timeout: 30_000 })
    expect(turns[1]).toMatchObject({ phase: 'end', error: { code: 'AGENT_CRASHED' } })
  })

  it.runIf(hasServer)("of a fleet's worker tell it as any other", async () => {
    await using fleet = await Fleet.connect({ dir: newFolder(), leaseMs: 3000 })
    const worker = await fleet.work({ queues: ['seen'], harness: { provider: 'codex', binary } })
    const turns = heard<TurnMessage>('sheepdog:turn')
    const tools = heard<ToolMessage>('sheepdog:tool')
    const cwd = newFolder()
    const job = await fleet.submit({ provider: 'codex', prompt: 'List, please.', queue: 'seen', cwd })
    await job.result
    await vi.waitFor(() => expect(turns).toHaveLength(2), { timeout: 30_000 })
    toldOf(turns, tools)
    expect(turns[0]).toMatchObject({ phase: 'start', prompt: 'List, please.', cwd })
    await worker.close()
  })
})

async function types(turn: AsyncIterable<{ type: string }>): Promise<string[]> {
  const seen: string[] = []
  for await (const { type } of turn) seen.push(type)
  return seen
}

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

  it('costs no events when no program has set it up', async () => {
    trace.disable()
    const opened = vi.spyOn(native.NativeTurn.prototype, 'events')
    onTestFinished(() => opened.mockRestore())
    await played(withTool).run('hi')
    expect(opened).toHaveBeenCalledTimes(0)
  })
})
