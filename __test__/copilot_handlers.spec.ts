// Handlers of the program that misbehave, and what the runtime is told then.
import { describe, expect, it } from 'vitest'
import {
  type CopilotClient,
  type CopilotClientOptions,
  type CopilotRequestContext,
  CopilotRequestHandler,
  type CopilotSession,
  type SessionConfig,
} from '../entries/copilot.js'
import type { ToolInvocation } from '../index.js'
import { rejection, scripted } from './copilot/peer'

const circle = () => {
  const value: Record<string, unknown> = {}
  value.self = value
  return value
}

/** What the client answers to an event of the session, the first time. */
async function answerTo(config: SessionConfig, method: string, ...event: unknown[]) {
  const { client, asked } = scripted(['--play', 'sends-event'])
  const session = await client.createSession(config)
  await session.send(JSON.stringify(event))
  const answers = () => asked().filter((message) => message.method === method)
  await expect.poll(() => answers().length, { timeout: 30_000 }).toBe(1)
  const { sessionId, requestId, ...answer } = answers()[0]!.params as Record<string, unknown>
  expect({ sessionId, requestId }).toEqual({ sessionId: session.sessionId, requestId: 'r' })
  return answer
}

/** What the client replies to a request of the runtime. */
async function replyTo(config: SessionConfig, method: string, params: object = {}) {
  const { client } = scripted(['--play', 'asks-back'])
  const session = await client.createSession(config)
  const answer = await session.sendAndWait(JSON.stringify([method, params]), 5000)
  return JSON.parse(answer!.data.content) as { code?: number; message?: string; result?: unknown }
}

describe('a tool', () => {
  const call = (handler: () => unknown) =>
    answerTo(
      { tools: [{ name: 't', handler }] },
      'session.tools.handlePendingToolCall',
      'external_tool.requested',
      { requestId: 'r', toolCallId: 'c', toolName: 't', arguments: {} },
    )
  const throws = (thrown: unknown) => () => {
    throw thrown
  }

  it.each<[string, () => unknown, object]>([
    ['returns nothing', () => undefined, { result: '' }],
    ['returns null', async () => null, { result: '' }],
    ['returns a function', () => () => 1, { result: '' }],
    ['returns NaN', () => Number.NaN, { result: 'null' }],
    ['throws undefined', throws(undefined), { error: 'undefined' }],
    ['throws what has no text', throws(Object.create(null)), { error: expect.any(String) }],
    ['returns a circle', circle, { error: expect.stringContaining('circular') }],
    ['returns a BigInt', () => ({ n: 1n }), { error: expect.stringContaining('BigInt') }],
    [
      'returns a result that JSON cannot say',
      () => ({ textResultForLlm: 'x', resultType: 'success', toolTelemetry: { n: 1n } }),
      { error: expect.stringContaining('BigInt') },
    ],
    [
      'returns a result with a circle',
      () => ({ textResultForLlm: 'x', resultType: 'success', sessionLog: circle() }),
      { error: expect.stringContaining('circular') },
    ],
  ])('that %s is answered', async (_, handler, answer) => {
    expect(await call(handler)).toEqual(answer)
  })

  const ends: [
    string,
    CopilotClientOptions['restart'],
    (client: CopilotClient, session: CopilotSession) => unknown,
    string,
  ][] = [
    ['disconnect()', 'never', (_, session) => session.disconnect(), 'SESSION_CLOSED'],
    ['stop()', 'never', (client) => client.stop(), 'SESSION_CLOSED'],
    ['a crash', 'never', (client) => client.cliProcess!.kill('SIGKILL'), 'CONNECTION_LOST'],
    [
      'a crash before a restart',
      'on-demand',
      (client) => client.cliProcess!.kill('SIGKILL'),
      'CONNECTION_LOST',
    ],
  ]
  it.each(ends)('the signal of a tool that runs is aborted by %s', async (_, restart, end, code) => {
    const { client } = scripted(['--play', 'asks-tools'], { restart })
    let onCall = (_signal: AbortSignal | undefined) => {}
    const called = new Promise<AbortSignal | undefined>((resolve) => (onCall = resolve))
    const handler = (_args: unknown, { signal }: ToolInvocation) => {
      onCall(signal)
      return new Promise(() => {})
    }
    const session = await client.createSession({ tools: [{ name: 'add', handler }] })
    const turn = rejection(session.sendAndWait('go', 10_000))
    const signal = await called
    expect(signal?.aborted).toBe(false)
    await end(client, session)
    expect((await turn).code).toBe(code)
    await expect.poll(() => signal?.aborted).toBe(true)
  })
})

it.each([
  ['stop()', (client: CopilotClient) => client.stop()],
  ['forceStop()', (client: CopilotClient) => client.forceStop()],
  ['a crash', (client: CopilotClient) => client.cliProcess!.kill('SIGKILL')],
])('the signal of a model request of the runtime is aborted by %s', async (_, end) => {
  let onOpen = (_signal: AbortSignal) => {}
  const opened = new Promise<AbortSignal>((resolve) => (onOpen = resolve))
  class Held extends CopilotRequestHandler {
    protected override openWebSocket({ signal }: CopilotRequestContext): Promise<never> {
      onOpen(signal)
      return new Promise(() => {})
    }
  }
  const { client } = scripted(['--play', 'asks-back', '--knows', 'llmInference.setProvider'], {
    requestHandler: new Held(),
  })
  const session = await client.createSession()
  const request = {
    requestId: 'q',
    method: 'GET',
    url: 'ws://127.0.0.1:1/',
    headers: {},
    transport: 'websocket',
  }
  await session.send(JSON.stringify(['llmInference.httpRequestStart', request]))
  const signal = await opened
  expect(signal.aborted).toBe(false)
  await end(client)
  await expect.poll(() => signal.aborted).toBe(true)
})

describe('answers that JSON cannot say', () => {
  it('of a permission: nobody is there', async () => {
    const answer = await answerTo(
      { onPermissionRequest: () => ({ kind: 'approve-once', n: 1n }) as never },
      'session.permissions.handlePendingPermissionRequest',
      'permission.requested',
      { requestId: 'r', permissionRequest: { kind: 'shell' } },
    )
    expect(answer).toEqual({ result: { kind: 'user-not-available' } })
  })

  it('of an elicitation: cancelled', async () => {
    const answer = await answerTo(
      { onElicitationRequest: () => ({ action: 'accept', content: { n: 1n } }) as never },
      'session.ui.handlePendingElicitation',
      'elicitation.requested',
      { requestId: 'r', message: 'x' },
    )
    expect(answer).toEqual({ result: { action: 'cancel' } })
  })

  it('of a sign-in: cancelled', async () => {
    const answer = await answerTo(
      { onMcpAuthRequest: () => ({ accessToken: 1n }) as never },
      'session.mcp.oauth.handlePendingRequest',
      'mcp.oauth_required',
      { requestId: 'r' },
    )
    expect(answer).toEqual({ result: { kind: 'cancelled' } })
  })

  it('of a hook or a question: the request fails', async () => {
    const hooks = { onPreToolUse: circle as never }
    const hook = await replyTo({ hooks }, 'hooks.invoke', { hookType: 'preToolUse', input: {} })
    expect(hook).toMatchObject({ code: -32603, message: expect.stringContaining('circular') })
    const question = { onUserInputRequest: () => ({ answer: 1n }) as never }
    expect(await replyTo(question, 'userInput.request', { question: 'q' })).toMatchObject({ code: -32603 })
  })
})

describe('requests of an unknown form', () => {
  it.each([
    ['userInput.request', 'Invalid user input request payload'],
    ['exitPlanMode.request', 'Invalid exit plan mode request payload'],
    ['hooks.invoke', 'Invalid hooks invoke payload'],
    ['systemMessage.transform', 'Invalid systemMessage.transform payload'],
  ])('%s is refused as by the SDK', async (method, message) => {
    const reply = await replyTo({}, method)
    expect(reply).toEqual({ code: -32603, message: `Request ${method} failed with message: ${message}` })
  })

  it.each(['__proto__', 'constructor', 'toString', 'factory.execute'])('%s is no method', async (method) => {
    expect(await replyTo({}, method)).toEqual({ code: -32601, message: `Unhandled method ${method}` })
  })
})

describe('event handlers', () => {
  it('may throw, unsubscribe, and subscribe within', async () => {
    const { client } = scripted()
    const session = await client.createSession()
    const seen: string[] = []
    const stop = session.on(() => {
      stop()
      seen.push('once')
      throw new Error('ignored')
    })
    session.on('user.message', () => {
      session.on('session.idle', () => seen.push('late'))
    })
    await session.sendAndWait('go', 5000)
    expect(seen).toEqual(['once', 'late'])
  })
})

describe('texts', () => {
  it('that end with half a character are the answer, and hide no background work', async () => {
    const { client } = scripted(['--play', 'cut-characters'])
    const session = await client.createSession()
    const answer = await session.sendAndWait('go', 5000)
    expect(answer?.data.content).toBe('cut again \ud83d')
  })

  it('come whole however the bytes are split', async () => {
    const { client } = scripted(['--play', 'byte-by-byte'])
    const session = await client.createSession()
    expect((await session.sendAndWait('go', 5000))?.data.content).toBe('ä€😀')
  })
})

describe('wrong arguments', () => {
  it('are rejections that say which', async () => {
    const { client } = scripted()
    const session = await client.createSession()
    const wrong: [Promise<unknown>, RegExp][] = [
      [session.send(undefined as never), /^message: /],
      [session.send({ prompt: 'x', attachments: [{ size: 1n }] as never }), /BigInt/],
      [session.send({ prompt: 'x', attachments: [1n] as never }), /attachments\[0\]: expected an object/],
      [session.sendAndWait(null as never), /^message: /],
      [client.createSession(null as never), /^config: /],
      [client.createSession({ sessionId: 5 as never }), /^sessionId: /],
      [client.createSession({ tools: 5 as never }), /^tools: /],
      [client.createSession({ tools: [null] as never }), /^tools\[0\]: /],
      [
        client.createSession({ gitHubToken: 'x', gitHubTokenProvider: () => 'x' as never }),
        /mutually exclusive/,
      ],
      [client.resumeSession(5 as never), /^sessionId: /],
      [client.resumeSession('x', {}, null as never), /^options: /],
      [client.inspectSession(5 as never), /^sessionId: /],
      [client.salvageSession(undefined as never), /^sessionId: /],
    ]
    for (const [attempt, message] of wrong) {
      const error = await rejection(attempt)
      expect(error.message).toMatch(message)
      expect(error.code).toBe('INVALID_OPTION')
    }
  })
})
