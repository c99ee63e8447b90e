// Against the real runtime (copilot-runtime of the platform package), without login: its model is the scripted model server.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { z } from 'zod'
import { startModelServer } from '../fixtures/model-server.mjs'
import { CopilotClient, type CopilotClientOptions, CopilotSession, approveAll, defineTool } from '../index.js'
import { isAlive, rejection, temporaryFolder } from './copilot/peer'

let server: Awaited<ReturnType<typeof startModelServer>>
let run = 0

beforeAll(async () => {
  server = await startModelServer({ script: 'text=unused' })
})
afterAll(() => server.close())

function connect(home = temporaryFolder(), options: CopilotClientOptions = {}) {
  const env = { ...process.env, HOME: home, COPILOT_HOME: undefined }
  const client = new CopilotClient({
    baseDirectory: home,
    useLoggedInUser: false,
    env,
    workingDirectory: temporaryFolder(),
    ...options,
  })
  onTestFinished(async () => {
    await client.stop()
  })
  return { client, home }
}

/** A session's configuration whose model follows the script. */
const byScript = (script: string | object[]) => ({
  model: 'any',
  provider: { type: 'openai' as const, baseUrl: `${server.urlFor(script, `r${run++}`)}/v1`, apiKey: 'x' },
  onPermissionRequest: approveAll,
})

const answerOf = (event: { data: { content: string } } | undefined) => event?.data.content
const seen = (session: CopilotSession) => {
  const types: string[] = []
  session.on((event) => types.push(event.type))
  return types
}

/** Processes whose command line holds the word. */
function running(word: string): string[] {
  const lines = execFileSync('ps', ['-eo', 'pid,args'], { encoding: 'utf8' }).split('\n')
  return lines.filter((line) => line.includes(word) && !line.includes('ps -eo'))
}

/** A command that can be told from all others. */
const sleepFor = () => `sleep ${97 + Math.random()}`

describe('turns', () => {
  it.each([true, false])('streaming %s: sends, and waits for the answer', async (streaming) => {
    const { client } = connect()
    const session = await client.createSession({ ...byScript('text=hello there;;text=again'), streaming })
    const types = seen(session)
    expect(answerOf(await session.sendAndWait('hi', 20_000))).toBe('hello there')
    expect(types.includes('assistant.message_delta')).toBe(streaming)
    expect(await session.send('more')).toMatch(/^[0-9a-f-]{36}$/)
    await new Promise<void>((resolve) => session.on('session.idle', () => resolve()))
    const events = await session.getEvents()
    expect(events.filter(({ type }) => type === 'user.message')).toHaveLength(2)
  })

  it('two sends at once each get their own answer', async () => {
    const { client } = connect()
    const session = await client.createSession(
      byScript([{ text: 'answer one', delayMs: 300 }, { text: 'answer two' }]),
    )
    const [one, two] = await Promise.all([
      session.sendAndWait('first', 20_000),
      session.sendAndWait('second', 20_000),
    ])
    expect([answerOf(one), answerOf(two)]).toEqual(['answer one', 'answer two'])
  })

  it('a failed turn rejects, and the next one gets its own answer', async () => {
    const { client } = connect()
    const bad = { status: 400, body: '{"error":{"message":"bad request"}}' }
    const session = await client.createSession(byScript([bad, { text: 'fine' }, { text: 'still fine' }]))
    const error = await rejection(session.sendAndWait('one', 20_000))
    expect(error.code).toBe('SESSION_ERROR')
    expect(error.errorType).toBeTypeOf('string')
    expect(answerOf(await session.sendAndWait('two', 20_000))).toBe('fine')
    expect(answerOf(await session.sendAndWait('three', 20_000))).toBe('still fine')
  })

  it('a turn that is refused before it begins says why, and so does the next', async () => {
    const { client } = connect()
    const session = await client.createSession({ model: 'gpt-5', onPermissionRequest: approveAll })
    for (const prompt of ['one', 'two']) {
      const error = await rejection(session.sendAndWait(prompt, 20_000))
      expect(error.code).toBe('SESSION_ERROR')
      expect(error.message).toContain('No GitHub OAuth token')
    }
  })

  it('abort() stops a turn, and the session goes on', async () => {
    const { client } = connect()
    const session = await client.createSession({
      ...byScript([{ drip: 500, everyMs: 50 }, { text: 'back' }]),
      streaming: true,
    })
    const turn = rejection(session.sendAndWait('go', 20_000))
    await new Promise<void>((resolve) => session.on('assistant.message_delta', () => resolve()))
    await session.abort()
    expect((await turn).code).toBe('SESSION_ABORTED')
    expect(answerOf(await session.sendAndWait('more', 20_000))).toBe('back')
  })

  it('autopilot resolves at its end', async () => {
    const { client } = connect()
    const complete = { calls: [{ name: 'task_complete', input: { summary: 'all done' } }] }
    const session = await client.createSession(
      byScript([{ text: 'working' }, complete, { text: 'finished' }]),
    )
    const types = seen(session)
    await session.sendAndWait({ prompt: 'go', agentMode: 'autopilot' }, 25_000)
    expect(types).toContain('session.idle')
  }, 30_000)
})

describe('what the agent asks', () => {
  it('runs a custom tool, its parameters by zod', async () => {
    const { client } = connect()
    const calls: unknown[] = []
    const add = defineTool('add_numbers', {
      description: 'Adds',
      parameters: z.object({ a: z.number(), b: z.number() }),
      handler: ({ a, b }, invocation) => {
        calls.push({ a, b, name: invocation.toolName, session: invocation.sessionId })
        return { sum: a + b }
      },
    })
    const script = [{ calls: [{ name: 'add_numbers', input: { a: 2, b: 3 } }] }, { text: 'five' }]
    const session = await client.createSession({ ...byScript(script), tools: [add] })
    expect(answerOf(await session.sendAndWait('add', 20_000))).toBe('five')
    expect(calls).toEqual([{ a: 2, b: 3, name: 'add_numbers', session: session.sessionId }])
  })

  it('asks for permission, and takes no for an answer', async () => {
    const { client } = connect()
    const asked: string[] = []
    const session = await client.createSession({
      ...byScript('shell=echo forbidden > out.txt;;text=well then'),
      onPermissionRequest: (request) => {
        asked.push(request.kind)
        return { kind: 'reject', feedback: 'not here' }
      },
    })
    expect(answerOf(await session.sendAndWait('go', 20_000))).toBe('well then')
    expect(asked).toEqual(['shell'])
  })

  it('asks the user', async () => {
    const { client } = connect()
    const script = [
      { calls: [{ name: 'ask_user', input: { question: 'Which?', choices: ['a', 'b'] } }] },
      { text: 'thanks' },
    ]
    const questions: string[] = []
    const session = await client.createSession({
      ...byScript(script),
      onUserInputRequest: ({ question }) => {
        questions.push(question)
        return { answer: 'b', wasFreeform: false }
      },
    })
    expect(answerOf(await session.sendAndWait('go', 20_000))).toBe('thanks')
    expect(questions).toEqual(['Which?'])
  })

  it('calls the hooks', async () => {
    const { client } = connect()
    const called: string[] = []
    const session = await client.createSession({
      ...byScript('shell=echo hooked;;text=done'),
      hooks: {
        onUserPromptSubmitted: ({ prompt, timestamp }) =>
          void called.push(`prompt ${prompt} ${timestamp instanceof Date}`),
        onPreToolUse: ({ toolName }) => void called.push(`before ${toolName}`),
        onPostToolUse: ({ toolName }) => void called.push(`after ${toolName}`),
      },
    })
    expect(answerOf(await session.sendAndWait('go', 20_000))).toBe('done')
    expect(called).toEqual(['prompt go true', 'before bash', 'after bash'])
  })

  it('takes its system message apart', async () => {
    const { client } = connect()
    const config = byScript('text=done')
    const sections: string[] = []
    const session = await client.createSession({
      ...config,
      systemMessage: {
        mode: 'customize',
        sections: {
          tone: {
            action: (content) => {
              sections.push(content)
              return 'SPEAK LIKE A SHEEPDOG'
            },
          },
        },
      },
    })
    await session.sendAndWait('go', 20_000)
    expect(sections).toHaveLength(1)
    expect(JSON.stringify(server.requests.map(({ body }: { body: unknown }) => body))).toContain(
      'SPEAK LIKE A SHEEPDOG',
    )
  })
})

describe('background work', () => {
  it('an asynchronous shell keeps the turn open until it is done', async () => {
    const { client } = connect()
    const script = [
      {
        calls: [
          {
            name: 'bash',
            input: { command: 'sleep 1; echo finished', description: 'waits', mode: 'async', shellId: 's1' },
          },
        ],
      },
      { text: 'started' },
      { text: 'all done' },
    ]
    const session = await client.createSession(byScript(script))
    const began = performance.now()
    expect(answerOf(await session.sendAndWait('go', 20_000))).toBe('all done')
    expect(performance.now() - began).toBeGreaterThan(1000)
  })

  it('a background agent keeps the turn open until it is done', async () => {
    const { client } = connect()
    const script = [
      {
        calls: [
          {
            name: 'task',
            input: {
              description: 'look',
              prompt: 'look around',
              agent_type: 'explore',
              name: 'scout',
              mode: 'background',
            },
          },
        ],
      },
      { text: 'answer text' },
    ]
    const session = await client.createSession(byScript(script))
    const types = seen(session)
    const answer = await session.sendAndWait('go', 25_000)
    expect(types).toContain('subagent.started')
    expect(types.lastIndexOf('session.idle')).toBeGreaterThan(types.lastIndexOf('subagent.completed'))
    expect(answer?.agentId).toBeUndefined()
  }, 30_000)
})

describe('histories', () => {
  it('are listed, resumed and deleted', async () => {
    const { client, home } = connect()
    const session = await client.createSession(byScript('text=kept'))
    await session.sendAndWait('remember', 20_000)
    const { sessionId } = session
    expect((await client.listSessions()).map((one) => one.sessionId)).toContain(sessionId)
    expect(await client.getSessionMetadata(sessionId)).toMatchObject({
      sessionId,
      startTime: expect.any(Date),
    })
    await client.stop()
    const other = connect(home).client
    const resumed = await other.resumeSession(sessionId, byScript('text=resumed'))
    expect(resumed).toMatchObject({ resumed: 'resumed', sessionId })
    expect((await resumed.getEvents()).filter(({ type }) => type === 'user.message')).toHaveLength(1)
    expect(answerOf(await resumed.sendAndWait('more', 20_000))).toBe('resumed')
    await resumed.disconnect()
    await expect(resumed.getEvents()).rejects.toThrow(/Session not found/)
    await other.deleteSession(sessionId)
    expect(await other.getSessionMetadata(sessionId)).toBeUndefined()
    expect(await other.inspectSession(sessionId)).toMatchObject({ log: 'absent', turns: 0 })
  })

  it('a session that was never used opens afresh, an existing one is not begun again', async () => {
    const { client, home } = connect()
    const { sessionId } = await client.createSession(byScript('text=x'))
    await client.stop()
    const other = connect(home).client
    const session = await other.resumeSession(sessionId, byScript('text=fresh'))
    expect(session).toMatchObject({ resumed: 'recreated', sessionId })
    expect(session.resumeReason).toContain('never used')
    expect(answerOf(await session.sendAndWait('hi', 20_000))).toBe('fresh')
    await session.disconnect()
    const error = await rejection(other.createSession({ ...byScript('text=x'), sessionId }))
    expect(error.code).toBe('SESSION_EXISTS')
  })

  it('fallback never, or known turns, open nothing afresh', async () => {
    const { client, home } = connect()
    const sessionId = '99999999-9999-4999-8999-999999999999'
    for (const options of [{ fallback: 'never' as const }, { knownTurns: 1 }]) {
      const error = await rejection(client.resumeSession(sessionId, byScript('text=x'), options))
      expect(error).toMatchObject({ code: 'RESUME_NOT_FOUND', rpcCode: -32603 })
      expect(error.message).toContain('Session not found')
      expect(error.cause).toMatchObject({ code: 'RPC_ERROR', rpcCode: -32603 })
    }
    expect(existsSync(join(home, 'session-state', sessionId))).toBe(false)
  })

  it('a missing agent is left out, once', async () => {
    const { client, home } = connect()
    const session = await client.createSession(byScript('text=x'))
    await session.sendAndWait('hi', 20_000)
    await client.stop()
    const other = connect(home).client
    const config = { ...byScript('text=without'), agent: 'nope' }
    expect(
      (await rejection(other.resumeSession(session.sessionId, config, { fallback: 'never' }))).code,
    ).toBe('RESUME_AGENT_MISSING')
    const resumed = await other.resumeSession(session.sessionId, config)
    expect(resumed.resumed).toBe('without-agent')
    expect(answerOf(await resumed.sendAndWait('more', 20_000))).toBe('without')
  })

  it('a missing directory is no empty session', async () => {
    const { client, home } = connect()
    const session = await client.createSession(byScript('text=x'))
    await session.sendAndWait('hi', 20_000)
    await client.stop()
    const config = { ...byScript('text=x'), workingDirectory: '/nowhere/at/all' }
    expect((await rejection(connect(home).client.resumeSession(session.sessionId, config))).code).toBe(
      'RESUME_FAILED',
    )
  })
})

describe('damaged histories', () => {
  const unknown = {
    id: '22222222-2222-4222-8222-222222222222',
    timestamp: '2026-01-01T00:00:00Z',
    parentId: null,
    type: 'x.y',
    data: {},
  }
  const cases: [name: string, change: (lines: string[]) => string, expected: string | { line?: number }][] = [
    [
      'a bad line in the middle',
      (lines) => [...lines.slice(0, 3), '{oops', ...lines.slice(3)].join('\n'),
      { line: 4 },
    ],
    [
      'a bad line that speaks of the network',
      (lines) => [...lines.slice(0, 3), 'network timeout 401', ...lines.slice(3)].join('\n'),
      { line: 4 },
    ],
    ['a partial line after the last', (lines) => `${lines.join('\n')}{"id":\n`, {}],
    ['garbage', () => 'garbage\n\u0001\u0002\n', { line: 1 }],
    ['no beginning', (lines) => lines.slice(1).join('\n'), {}],
    ['a bad envelope', (lines) => lines.join('\n').replace('"id":"', '"idx":"'), { line: 1 }],
    ['no byte at all', () => '', 'recreated'],
    ['a last line cut short', (lines) => lines.join('\n').slice(0, -30), 'resumed'],
    ['an unknown event', (lines) => `${lines.join('\n')}${JSON.stringify(unknown)}\n`, 'resumed'],
    ['zeros at the end', (lines) => `${lines.join('\n')}\0\0\0`, 'resumed'],
  ]

  it('surface as RESUME_CORRUPT and stay as they are; what can be read is resumed', async () => {
    const { client, home } = connect()
    const session = await client.createSession(byScript('text=\u2028one\u2028;;text=two'))
    await session.sendAndWait('one', 20_000)
    const { sessionId } = session
    await client.stop()
    const log = join(home, 'session-state', sessionId, 'events.jsonl')
    const good = readFileSync(log, 'utf8')
    for (const [name, change, expected] of cases) {
      const text = change(good.split('\n'))
      writeFileSync(log, text)
      const other = connect(home).client
      if (typeof expected === 'string') {
        const resumed = await other.resumeSession(sessionId, byScript('text=x'))
        expect(resumed.resumed, name).toBe(expected)
      } else {
        const error = await rejection(other.resumeSession(sessionId, byScript('text=x')))
        expect(error, name).toMatchObject({ code: 'RESUME_CORRUPT', rpcCode: -32603, ...expected })
        expect(error.message, name).toMatch(/Invalid event|First event/)
        expect(readFileSync(log, 'utf8'), name).toBe(text)
        expect(readdirSync(join(home, 'session-state')), name).toEqual([sessionId])
      }
      await other.stop()
    }
  }, 60_000)

  it('are salvaged to a new session that can be resumed', async () => {
    const { client, home } = connect()
    const session = await client.createSession(byScript('text=one'))
    await session.sendAndWait('one', 20_000)
    const { sessionId } = session
    await client.stop()
    const log = join(home, 'session-state', sessionId, 'events.jsonl')
    const lines = readFileSync(log, 'utf8').split('\n')
    const text = [...lines.slice(0, 3), '{oops', ...lines.slice(3)].join('\n')
    writeFileSync(log, text)
    const other = connect(home).client
    expect(await other.inspectSession(sessionId)).toMatchObject({
      log: 'turns',
      turns: 1,
      badLine: 4,
      path: log,
    })
    const salvaged = await other.salvageSession(sessionId)
    expect(salvaged).toMatchObject({ kept: lines.length - 1, leftOut: [{ line: 4 }] })
    const resumed = await other.resumeSession(salvaged.sessionId, byScript('text=saved'))
    expect(resumed.resumed).toBe('resumed')
    expect(answerOf(await resumed.sendAndWait('more', 20_000))).toBe('saved')
    expect(readFileSync(log, 'utf8')).toBe(text)
  })

  it('a session that was started over opens', async () => {
    const { client, home } = connect()
    const session = await client.createSession(byScript('text=one'))
    await session.sendAndWait('one', 20_000)
    const first = (await session.getEvents()).find(({ type }) => type === 'user.message')!
    await session.rpc.history.truncate({ eventId: first.id })
    await client.stop()
    const other = connect(home).client
    expect(await other.inspectSession(session.sessionId)).toMatchObject({ log: 'no-turns', turns: 0 })
    expect((await other.resumeSession(session.sessionId, byScript('text=x'))).resumed).toMatch(
      /resumed|recreated/,
    )
  })
})

describe('the process', () => {
  it('stop() with a running shell leaves nothing alive', async () => {
    const { client } = connect()
    const command = sleepFor()
    const session = await client.createSession(byScript(`shell=${command};;text=done`))
    const turn = rejection(session.sendAndWait('go', 20_000))
    await expect.poll(() => running(command).length, { timeout: 15_000 }).toBeGreaterThan(0)
    await client.stop()
    expect((await turn).code).toBe('SESSION_CLOSED')
    expect(running(command)).toEqual([])
  }, 30_000)

  it('SIGKILL in the middle of a turn is told at once, and leaves nothing alive', async () => {
    const { client, home } = connect()
    const command = sleepFor()
    const session = await client.createSession(byScript(`shell=${command};;text=done`))
    const turn = rejection(session.sendAndWait('go', 30_000))
    await expect.poll(() => running(command).length, { timeout: 15_000 }).toBeGreaterThan(0)
    const pid = running('copilot-runtime')
      .map((line) => Number(/\d+/.exec(line)![0]))
      .find(
        (candidate) =>
          isAlive(candidate) &&
          readFileSync(`/proc/${candidate}/environ`, 'latin1').includes(`COPILOT_HOME=${home}`),
      )!
    const began = performance.now()
    process.kill(pid, 'SIGKILL')
    expect(await turn).toMatchObject({ code: 'CONNECTION_LOST', signal: 'SIGKILL' })
    expect(performance.now() - began).toBeLessThan(3000)
    await expect.poll(() => running(command), { timeout: 3000 }).toEqual([])
    await client.start()
    expect((await client.ping('alive')).message).toBe('pong: alive')
  }, 30_000)

  it('rpc by path and its errors', async () => {
    const { client } = connect()
    const session = await client.createSession(byScript('text=x'))
    expect(await session.rpc.model.getCurrent()).toMatchObject({ modelId: 'any' })
    expect((await client.rpc.tools.list({})).tools.length).toBeGreaterThan(0)
    const unknown = (client.rpc as never as { no: { such(): Promise<unknown> } }).no
    expect(await rejection(unknown.such())).toMatchObject({
      code: 'RPC_ERROR',
      rpcCode: -32601,
      method: 'no.such',
    })
    await expect(client.listModels()).rejects.toThrow(/[Nn]ot authenticated/)
  })
})
