// Against the real runtime (copilot-runtime of the platform package), without login: its model is the scripted model server.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type CopilotSession, approveAll } from '../entries/copilot.js'
import { defineTool } from '../index.js'
import { isAlive } from './alive'
import { rejection } from './copilot/peer'
import { realRuntime } from './copilot/real-runtime'
import { missingFields } from './promised-fields'

const { connect, byScript, requests } = realRuntime()

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
    expect(missingFields(error)).toEqual([])
    expect(answerOf(await session.sendAndWait('two', 20_000))).toBe('fine')
    expect(answerOf(await session.sendAndWait('three', 20_000))).toBe('still fine')
  })

  it('a turn that is refused before it begins says why, and so does the next', async () => {
    const { client } = connect()
    const session = await client.createSession({ model: 'gpt-5', onPermissionRequest: approveAll })
    for (const prompt of ['one', 'two']) {
      const error = await rejection(session.sendAndWait(prompt, 20_000))
      expect(error.code).toBe('SESSION_ERROR')
      expect(missingFields(error)).toEqual([])
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
  })
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
    expect(JSON.stringify(requests().map(({ body }: { body: unknown }) => body))).toContain(
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
  })
})

describe('the process', () => {
  it('stop() with a running shell leaves nothing alive', async () => {
    const { client } = connect()
    const command = sleepFor()
    const session = await client.createSession(byScript(`shell=${command};;text=done`))
    const turn = rejection(session.sendAndWait('go', 20_000))
    await expect.poll(() => running(command).length, { timeout: 60_000 }).toBeGreaterThan(0)
    await client.stop()
    expect((await turn).code).toBe('SESSION_CLOSED')
    expect(running(command)).toEqual([])
  })

  it('SIGKILL in the middle of a turn is told at once, and leaves nothing alive', async () => {
    const { client, home } = connect()
    const command = sleepFor()
    const session = await client.createSession(byScript(`shell=${command};;text=done`))
    const turn = rejection(session.sendAndWait('go', 30_000))
    await expect.poll(() => running(command).length, { timeout: 60_000 }).toBeGreaterThan(0)
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
    expect(performance.now() - began, 'long before the turn times out').toBeLessThan(20_000)
    await expect.poll(() => running(command), { timeout: 30_000 }).toEqual([])
    await client.start()
    expect((await client.ping('alive')).message).toBe('pong: alive')
  })

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
