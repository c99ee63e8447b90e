// Turns of a played agent: verdicts, clocks, retries, schemas, queueing, what crosses to JavaScript.
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import {
  ConcurrencyLimit,
  Harness,
  SheepdogError,
  doctor,
  replay,
  type AgentEvent,
  type HarnessOptions,
  type ProviderName,
} from '..'

const folder = mkdtempSync(join(tmpdir(), 'harness-spec-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const player = join(__dirname, '..', 'fixtures', 'bin', 'agent.mjs')
let counter = 0
const counting = (...plans: object[][]) => ({ count: join(folder, `starts-${counter++}`), plans })

/** A harness whose agent plays this plan in the words of codex. */
function played(plan: object[], options: Partial<HarnessOptions> = {}): Harness {
  return new Harness({
    provider: 'codex',
    binary: ['node', player, JSON.stringify(plan)],
    cwd: folder,
    ...options,
  })
}

const session = { line: { type: 'thread.started', thread_id: 't-1' } }
const done = {
  line: { type: 'turn.completed', usage: { input_tokens: 10, cached_input_tokens: 2, output_tokens: 3 } },
}
const said = (text: string) => ({
  line: { type: 'item.completed', item: { id: 'm', type: 'agent_message', text } },
})
const failed = (message: string) => ({ line: { type: 'turn.failed', error: { message } } })
const command = {
  id: 'c',
  type: 'command_execution',
  command: 'ls',
  aggregated_output: '',
  exit_code: null,
  status: 'in_progress',
}
const tool = { line: { type: 'item.started', item: command } }
const answer = [session, said('Hello.'), done]

async function failure(promise: Promise<unknown>): Promise<SheepdogError & { result: any }> {
  const error = await promise.then(
    (value) => expect.fail(`resolved with ${JSON.stringify(value)}`),
    (error) => error,
  )
  expect(error).toBeInstanceOf(SheepdogError)
  return error
}

/** A step that prints these lines, more than an argument can hold. */
function printed(...steps: { line: object }[]) {
  const file = join(folder, `lines-${counter++}`)
  writeFileSync(file, steps.map(({ line }) => `${JSON.stringify(line)}\n`).join(''))
  return { file }
}

const isAlive = (pid: number) => existsSync(`/proc/${pid}`)

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
    expect(() => turn[Symbol.asyncIterator]()).toThrow('being iterated already')
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
    const turn = played([printed(session, ...many, done)]).start('hi', { idleTimeoutMs: 400 })
    let texts = 0
    for await (const event of turn) {
      if (event.type === 'text' && texts++ % 1000 === 0)
        await new Promise((resolve) => setTimeout(resolve, 500))
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
    const { warnings } = await played(answer).run('hi', { maxTurns: 3, tools: ['read'], maxBudgetUsd: 1 })
    expect(warnings.map((warning) => warning.split(':')[0]).sort()).toEqual([
      'maxBudgetUsd',
      'maxTurns',
      'tools',
    ])
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

describe('the clocks', () => {
  it('end an agent that never begins', async () => {
    const error = await failure(played([{ hang: true }]).run('hi', { startTimeoutMs: 500 }))
    expect(error.code).toBe('AGENT_IDLE')
    expect(error.message).toContain('startTimeoutMs')
  })

  it('end an agent that falls silent, and nothing of it is left', async () => {
    const error = await failure(
      played([session, said('part'), { spawn: true }, { hang: true }]).run('hi', { idleTimeoutMs: 500 }),
    )
    expect(error).toMatchObject({ code: 'AGENT_IDLE', result: { text: 'part' } })
    expect(isAlive(error.result.process.pid)).toBe(false)
  })

  it('have patience while a tool is open', async () => {
    const result = await played([
      session,
      tool,
      { wait: 1200 },
      { line: { type: 'item.completed', item: { ...command, status: 'completed', exit_code: 0 } } },
      said('Done.'),
      done,
    ]).run('hi', {
      idleTimeoutMs: 500,
      toolIdleTimeoutMs: 20_000,
    })
    expect(result.text).toBe('Done.')
    const error = await failure(
      played([session, tool, { hang: true }]).run('hi', { idleTimeoutMs: 60_000, toolIdleTimeoutMs: 500 }),
    )
    expect(error.code).toBe('AGENT_IDLE')
    expect(error.message).toContain('toolIdleTimeoutMs')
  })

  it('give a busy tree one extension, and say so', async () => {
    const turn = played([session, { spin: true }]).start('hi', { idleTimeoutMs: 1000 })
    const warnings: string[] = []
    for await (const event of turn) if (event.type === 'warning') warnings.push(event.message)
    const error = await failure(turn.result)
    expect(error.code).toBe('AGENT_IDLE')
    expect(warnings).toEqual([expect.stringContaining('busy')])
    expect(error.result.warnings).toEqual(warnings)
  })

  it('end an attempt that takes too long', async () => {
    const error = await failure(
      played([session, { repeat: [said('more')], every: 50 }]).run('hi', { timeoutMs: 700 }),
    )
    expect(error).toMatchObject({ code: 'AGENT_TIMED_OUT', result: { text: 'more' } })
  })

  it('end chatter without progress', async () => {
    const chatter = { line: { type: 'turn.started' } }
    const error = await failure(played([session, { repeat: Array(20).fill(chatter), every: 10 }]).run('hi'))
    expect(error.code).toBe('AGENT_NO_PROGRESS')
  })
})

describe('an abort', () => {
  it('ends the whole tree, and the reason is the cause', async () => {
    const controller = new AbortController()
    const onabort = () => {}
    controller.signal.onabort = onabort
    const turn = played([session, { spawn: true }, tool, { hang: true }]).start('hi', {
      signal: controller.signal,
    })
    for await (const event of turn) if (event.type === 'tool_start') controller.abort(new Error('enough'))
    const error = await failure(turn.result)
    expect(error.code).toBe('AGENT_ABORTED')
    expect((error.cause as Error).message).toBe('enough')
    expect(isAlive(error.result.process.pid)).toBe(false)
    expect(controller.signal.onabort).toBe(onabort)
  })

  it('that came before the start starts nothing', async () => {
    const plan = [counting(answer)]
    const error = await failure(played(plan).run('hi', { signal: AbortSignal.abort() }))
    expect(error.code).toBe('AGENT_ABORTED')
    expect(existsSync(plan[0]!.count)).toBe(false)
  })

  it('works while the turn is queued, and `await using` ends it', async () => {
    const harness = played([session, { hang: true }], { maxConcurrent: 1 })
    await using first = harness.start('hi')
    const second = harness.start('hi')
    await second.abort()
    const error = await failure(second.result)
    expect(error.code).toBe('AGENT_ABORTED')
    expect(error.result.attempts).toBe(0)
    void first
  })
})

describe('retries', () => {
  const busy = [session, failed('unexpected status 503 Service Unavailable'), { exit: 1 }]

  it('come for reasons that pass, with every attempt counted', async () => {
    const turn = played([counting(busy, busy, answer)]).start('hi', { retry: { baseDelayMs: 10 } })
    const retries: AgentEvent[] = []
    let ends = 0
    for await (const event of turn) {
      if (event.type === 'retry') retries.push(event)
      if (event.type === 'end') ends++
    }
    expect(await turn.result).toMatchObject({ text: 'Hello.', attempts: 3 })
    expect(retries).toHaveLength(2)
    expect(ends).toBe(1)
  })

  it('end after the attempts that are allowed', async () => {
    const error = await failure(
      played([counting(busy)]).run('hi', { retry: { attempts: 2, baseDelayMs: 10 } }),
    )
    expect(error).toMatchObject({ code: 'AGENT_FAILED', kind: 'overloaded', result: { attempts: 2 } })
  })

  it('never come once a tool ran, unless the caller says so', async () => {
    const worked = [session, tool, ...busy.slice(1)]
    const once = await failure(played([counting(worked, answer)]).run('hi', { retry: { baseDelayMs: 10 } }))
    expect(once.result.attempts).toBe(1)
    const again = await played([counting(worked, answer)]).run('hi', {
      retry: { baseDelayMs: 10, afterTools: true },
    })
    expect(again.attempts).toBe(2)
  })

  it('wait as long as the service asks', async () => {
    const limited = [session, failed('429 Too Many Requests: try again in 1s'), { exit: 1 }]
    const started = performance.now()
    await played([counting(limited, answer)]).run('hi', { retry: { baseDelayMs: 1 } })
    expect(performance.now() - started).toBeGreaterThan(1000)
  })

  it('never come for what stays wrong', async () => {
    const error = await failure(
      played([session, failed('unexpected status 401 Unauthorized'), { exit: 1 }]).run('hi'),
    )
    expect(error.result.attempts).toBe(1)
  })
})

describe('a schema', () => {
  const schema = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] }

  it('is read from the final answer, mended where it is only badly written', async () => {
    const result = await played([session, said('Here:\n```json\n{"a": 5,}\n```'), done]).run('hi', { schema })
    expect(result.structured).toEqual({ a: 5 })
  })

  it('is asked for once more in the same session, with the problems', async () => {
    const harness = played([
      counting([session, said('{"a":"x"}'), done], [session, { tell: 'args' }, said('{"a":6}'), done]),
    ])
    const result = await harness.run('hi', { schema })
    expect(result).toMatchObject({ structured: { a: 6 }, attempts: 2 })
    expect(result.process!.args).toContain('t-1')
    expect(result.process!.args.at(-1)).toContain('/a')
  })

  it('rejects with the problems when the second answer does not fit either', async () => {
    const error = await failure(
      played([session, said('{"a":"x"}'), done]).run('hi', { schema: { toJSONSchema: () => schema } }),
    )
    expect(error).toMatchObject({
      code: 'AGENT_SCHEMA_MISMATCH',
      problems: [expect.stringContaining('/a')],
      result: { attempts: 2 },
    })
  })
})

describe('the queue', () => {
  it('runs no more turns at once than allowed, in their order, over harnesses', async () => {
    const limit = new ConcurrencyLimit(1)
    const order: number[] = []
    const harnesses = [0, 1].map(() => played([session, { wait: 100 }, said('Hello.'), done], { limit }))
    const turns = [0, 1, 2, 3].map((number) =>
      harnesses[number % 2]!.run('hi').then((result) => (order.push(number), result)),
    )
    const results = await Promise.all(turns)
    expect(order).toEqual([0, 1, 2, 3])
    expect(results[3]!.queuedMs).toBeGreaterThan(results[1]!.queuedMs)
  })
})

describe('bad input', () => {
  it.each<[object, string]>([
    [{ provider: 'codx' }, 'provider: no provider is named "codx"; did you mean codex?'],
    [{}, 'provider: is missing'],
    [{ provider: 'codex', idleTimeoutMs: NaN }, 'idleTimeoutMs: '],
    [{ provider: 'codex', maxConcurrent: 0 }, 'maxConcurrent: '],
    [{ provider: 'codex', retry: { attemps: 3 } }, 'retry.attemps: no such option; did you mean attempts?'],
    [{ provider: 'codex', schema: { type: 'objct' } }, 'schema: '],
    [{ provider: 'codex', schema: 'a' }, 'schema: '],
    [{ provider: 'codex', binary: [] }, 'binary: '],
    [{ provider: 'codex', limit: {} }, 'limit: '],
    [{ provider: 'codex', permission: 'ask' }, 'permission: '],
  ])('%j is refused by its path', (options, message) => {
    expect(() => new Harness(options as HarnessOptions)).toThrow(
      expect.objectContaining({ code: 'INVALID_OPTION', message: expect.stringContaining(message) }),
    )
  })

  it.each([
    ['', 'prompt: '],
    ['a\0b', 'prompt: '],
  ])('the prompt %j is refused', async (prompt, message) => {
    const error = await failure(played(answer).run(prompt))
    expect(error).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringContaining(message) })
  })

  it('a program that is missing is told with how to install it', async () => {
    const harness = new Harness({ provider: 'pi', env: { PATH: folder } })
    const error = await failure(harness.run('hi'))
    expect(error).toMatchObject({
      code: 'AGENT_NOT_FOUND',
      install: expect.stringContaining('npm install -g'),
    })
    expect(
      (await failure(new Harness({ provider: 'pi', binary: join(folder, 'none') }).run('hi'))).code,
    ).toBe('AGENT_NOT_FOUND')
  })

  it('a folder that is missing is told as such', async () => {
    expect((await failure(played(answer).run('hi', { cwd: join(folder, 'none') }))).code).toBe(
      'PROCESS_CWD_MISSING',
    )
  })
})

describe('replay', () => {
  const streams = join(__dirname, '..', 'fixtures', 'streams')

  it.each(readdirSync(streams))('%s: every recording yields its events and its verdict', (provider) => {
    const names = readdirSync(join(streams, provider)).filter((name) => name.endsWith('.jsonl'))
    expect(names.length).toBeGreaterThanOrEqual(13)
    for (const name of names) {
      const path = (end: string) => join(streams, provider, name.replace('jsonl', end))
      const { exitCode, signal, stderr } = JSON.parse(readFileSync(path('end.json'), 'utf8'))
      const expected = JSON.parse(readFileSync(path('expected.json'), 'utf8'))
      const stdout = readFileSync(path('jsonl'))
      const { ok, events, result, error } = replay(provider as ProviderName, {
        stdout,
        stderr,
        exitCode,
        signal,
      })
      expect({ ok, events, result }, `${provider}/${name}`).toEqual({
        ok: expected.ok,
        events: expected.events,
        result: expected.result,
      })
      expect(error?.code, name).toBe(expected.error?.code)
    }
  })

  it('lets the end of turn decide where the end of the process is unknown', () => {
    const stdout = [session, said('Hello.'), done].map(({ line }) => JSON.stringify(line)).join('\n')
    expect(replay('codex', { stdout })).toMatchObject({ ok: true, result: { text: 'Hello.' } })
    expect(replay('codex', { stdout: '' })).toMatchObject({ ok: false, error: { code: 'AGENT_TRUNCATED' } })
    expect(() => replay('codx' as ProviderName, { stdout })).toThrow('did you mean codex')
  })
})

describe('doctor', () => {
  it('tells of every provider whether it is there, and how to install it', async () => {
    const findings = await doctor({ env: { PATH: folder } })
    expect(findings).toHaveLength(7)
    for (const finding of findings) {
      expect(finding).toMatchObject({
        found: false,
        install: expect.stringContaining('npm install'),
        problem: expect.any(String),
      })
    }
    await expect(doctor({ signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'AGENT_ABORTED' })
  })
})
