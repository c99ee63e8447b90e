// A turn: its result, its events, and the verdict.
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Harness, type AgentEvent } from '..'
import { isAlive } from './alive'
import {
  answer,
  counting,
  done,
  failed,
  failure,
  folder,
  played,
  player,
  printed,
  said,
  session,
  tool,
} from './played-agent'

describe('a turn', () => {
  it('resolves with the answer, its figures and its process', async () => {
    const result = await played(answer).run('hi')
    expect(result).toMatchObject({
      text: 'Hello.',
      sessionId: 't-1',
      usage: { inputTokens: 10, outputTokens: 3, cachedInputTokens: 2 },
      turns: 1,
      toolCalls: 0,
      attempts: 1,
      provider: 'codex',
      recovered: false,
      warnings: [],
      process: { exitCode: 0 },
    })
    expect(result.queuedMs).toBeGreaterThanOrEqual(0)
  })

  it('gives its events in order, to one iterator', async () => {
    const turn = played(answer).start('hi')
    const events: AgentEvent[] = []
    for await (const event of turn) events.push(event)
    expect(events.map((event) => event.type)).toEqual(['session', 'text', 'usage', 'end'])
    expect(() => turn[Symbol.asyncIterator]()).toThrow('already being read')
    expect((await turn.result).text).toBe('Hello.')
  })

  it('keeps the first events for an iterator that comes after the end', async () => {
    const turn = played(answer).start('hi')
    await turn.result
    const types: string[] = []
    for await (const event of turn) types.push(event.type)
    expect(types).toEqual(['session', 'text', 'usage', 'end'])
  })

  it('drops events that nobody iterates, and goes on when a loop is left early', async () => {
    const many = Array.from({ length: 5000 }, (_, index) => said(`message ${index}`))
    const turn = played([printed(session, ...many, done)]).start('hi')
    for await (const event of turn) if (event.type === 'text') break
    expect((await turn.result).text).toBe('message 4999')
  })

  it('waits for a slow reader without taking that for silence', async () => {
    const many = Array.from({ length: 3000 }, (_, index) => said(`${index} ${'x'.repeat(1000)}`))
    const turn = played([printed(session, ...many, done)]).start('hi', { idleTimeoutMs: 1000 })
    let texts = 0
    for await (const event of turn) {
      if (event.type === 'text' && texts++ % 1500 === 0)
        await new Promise((resolve) => setTimeout(resolve, 1200))
    }
    expect(texts).toBe(3000)
    await turn.result
  })

  it('has a temporary folder of its own, removed afterwards', async () => {
    const { text } = await played([session, { tell: 'env' }, done]).run('hi')
    const env = JSON.parse(text)
    expect(env.TMPDIR).not.toBe(tmpdir())
    expect(existsSync(env.TMPDIR)).toBe(false)
  })

  it('hides the variables of an agent around it, but not those that the caller gives', async () => {
    process.env.CLAUDECODE = '1'
    try {
      const harness = played([session, { tell: 'env' }, done])
      expect(JSON.parse((await harness.run('hi')).text)).not.toHaveProperty('CLAUDECODE')
      expect(JSON.parse((await harness.run('hi', { env: { CLAUDECODE: '2' } })).text)).toHaveProperty(
        'CLAUDECODE',
        '2',
      )
    } finally {
      delete process.env.CLAUDECODE
    }
  })

  it('gives a long prompt by stdin and a short one as an argument', async () => {
    const long = 'word '.repeat(50_000)
    expect((await played([session, { tell: 'stdin' }, done]).run(long)).text).toBe(long)
    const args = JSON.parse((await played([session, { tell: 'args' }, done]).run('--help me')).text)
    expect(args.slice(-2)).toEqual(['--', '--help me'])
  })

  it('says what its CLI can not do', async () => {
    const { warnings } = await played(answer).run('hi', { maxTurns: 3, cliTools: ['read'] })
    expect(warnings.map((warning) => warning.split(':')[0]).sort()).toEqual(['cliTools', 'maxTurns'])
  })

  it('takes secrets out of events, result and error, also where they come in two deltas', async () => {
    const harness = new Harness({
      provider: 'gemini',
      cwd: folder,
      redact: ['s3cret-value'],
      binary: [
        'node',
        player,
        JSON.stringify([
          { line: { type: 'init', session_id: 'g' } },
          { line: { type: 'message', role: 'assistant', content: 'it is s3cret', delta: true } },
          { line: { type: 'message', role: 'assistant', content: '-value.', delta: true } },
          { line: 's3cret-value is noise' },
          { stderr: 's3cret-value' },
          { line: { type: 'result', status: 'error', error: { message: 'no s3cret-value' } } },
        ]),
      ],
    })
    const turn = harness.start('hi')
    const events: AgentEvent[] = []
    for await (const event of turn) events.push(event)
    const error = await failure(turn.result)
    expect(JSON.stringify(events)).not.toContain('s3cret')
    expect(
      JSON.stringify({
        ...error,
        result: { ...error.result, process: { ...error.result.process, args: [] } },
      }),
    ).not.toContain('s3cret')
    expect(error.message).not.toContain('s3cret')
    expect(events.some((event) => event.type === 'text')).toBe(true)
  })
})

describe('the verdict', () => {
  it.each([
    [
      'a failed turn with exit 0',
      [session, said('part'), failed('unexpected status 401 Unauthorized')],
      'AGENT_FAILED',
      'auth',
    ],
    ['exit 0 without an end of turn', [session, said('part')], 'AGENT_TRUNCATED', undefined],
    ['exit 7 after words', [session, said('part'), { exit: 7 }], 'AGENT_CRASHED', undefined],
    ['exit 7 after a good end of turn', [...answer, { exit: 7 }], 'AGENT_CRASHED', undefined],
    ['a signal', [session, said('part'), { signal: 'SIGSEGV' }], 'AGENT_CRASHED', undefined],
  ])('rejects %s', async (_, plan, code, kind) => {
    const error = await failure(played(plan).run('hi', { retry: { attempts: 1 } }))
    expect({ code: error.code, kind: error.kind }).toEqual({ code, kind })
    expect(error.result.sessionId).toBe('t-1')
    expect(error.result.text).toMatch(/part|Hello/)
    expect(error).toHaveProperty('stderr')
  })

  it('warns of what its processes left running, and ends that', async () => {
    const result = await played([{ spawn: true }, ...answer]).run('hi')
    expect(result).toMatchObject({ text: 'Hello.', process: { straysKilled: 1 } })
    expect(result.warnings).toEqual([
      'a process that the agent started was still running at its end, and was killed',
    ])
  })

  it('is a success when an agent hangs after its good end of turn', async () => {
    const result = await played([...answer, { spawn: true }, { hang: true }]).run('hi')
    expect(result).toMatchObject({ text: 'Hello.', recovered: true })
    expect(isAlive(result.process!.pid)).toBe(false)
  })

  it('does not end a turn for an error that passes', async () => {
    const hiccup = { line: { type: 'error', message: 'Reconnecting... 1/5 (unexpected status 500)' } }
    expect((await played([session, hiccup, said('Hello.'), done]).run('hi')).text).toBe('Hello.')
  })

  it('ends a CLI that began another session than the one to go on with', async () => {
    const started = performance.now()
    const error = await failure(played([session, { hang: true }]).run('hi', { resume: 't-0' }))
    expect(error.code).toBe('AGENT_RESUME_FAILED')
    expect(performance.now() - started).toBeLessThan(10_000)
  })

  it('differences the usage of a session that counts on', async () => {
    const counted = (tokens: number) => ({
      line: {
        type: 'turn.completed',
        usage: { input_tokens: tokens, cached_input_tokens: 0, output_tokens: 1 },
      },
    })
    const start = { line: { type: 'thread.started', thread_id: 't-counting' } }
    const harness = played([counting([start, said('1'), counted(100)], [start, said('2'), counted(250)])])
    expect((await harness.run('hi')).usage!.inputTokens).toBe(100)
    expect((await harness.run('hi', { resume: 't-counting' })).usage!.inputTokens).toBe(150)
  })
})

describe('the events of an error', () => {
  const plan = [session, said('part'), tool, failed('unexpected status 401 Unauthorized'), { exit: 1 }]
  const types = (events: { type: string }[]) => events.map((event) => event.type)

  it('are there though nobody listened, and are the same for who did', async () => {
    const silent = await failure(played(plan).run('hi'))
    expect(types(silent.events)).toEqual(['session', 'text', 'tool_start', 'error', 'end'])
    expect(silent.events[1]).toEqual({ type: 'text', text: 'part', delta: false })
    const turn = played(plan).start('hi')
    const heard: AgentEvent[] = []
    for await (const event of turn) heard.push(event)
    expect((await failure(turn.result)).events).toEqual(heard)
  })

  it('are the last ones, within bounds', async () => {
    const many = Array.from({ length: 5000 }, (_, index) => said(`${index} ${'x'.repeat(3000)}`))
    const { events } = await failure(played([printed(session, ...many), { exit: 9 }]).run('hi'))
    expect(events.length).toBeGreaterThan(50)
    expect(events.length).toBeLessThanOrEqual(200)
    expect(JSON.stringify(events).length).toBeLessThan(300_000)
    expect(events.at(-1).text).toMatch(/^4999 /)
    expect(types(events)).not.toContain('noise')
  })

  it('tell of the attempts before, and keep secrets out', async () => {
    const busy = [session, said('it is s3cret'), failed('unexpected status 503: s3cret'), { exit: 1 }]
    const harness = played(busy, { redact: ['s3cret'], retry: { attempts: 2, baseDelayMs: 1 } })
    const { events } = await failure(harness.run('hi'))
    expect(types(events)).toEqual(['retry', 'session', 'text', 'error', 'end'])
    expect(JSON.stringify(events)).not.toContain('s3cret')
  })

  it('are none where nothing ran', async () => {
    expect((await failure(played(plan, { binary: join(folder, 'none') }).run('hi'))).events).toEqual([])
  })
})
