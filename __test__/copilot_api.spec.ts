// The surface: names and shapes of the SDK, what needs no runtime, and what only the scripted one can show.
import { describe, expect, it } from 'vitest'
import * as sdk from '@github/copilot-sdk'
import * as sheepdog from '../entries/copilot.js'
import {
  CopilotClient,
  RuntimeConnection,
  SYSTEM_MESSAGE_SECTIONS,
  ToolSet,
  approveAll,
  classifyResumeError,
  convertMcpCallToolResult,
  createAttributedPermissionResult,
  createSessionFsAdapter,
  defineFactory,
} from '../entries/copilot.js'
import { defineTool } from '../index.js'
import { rejection, scripted } from './copilot/peer'

describe('names', () => {
  it('every value of the SDK is here, of the same kind', () => {
    for (const [name, value] of Object.entries(sdk)) {
      expect(typeof (sheepdog as Record<string, unknown>)[name], name).toBe(typeof value)
    }
  })

  it('every method of its classes is here', () => {
    for (const name of ['CopilotClient', 'CopilotSession', 'ToolSet', 'CopilotWebSocketForwarder'] as const) {
      const isPublic = (method: string) => !method.startsWith('_') && !internal.includes(method)
      const methods = Object.getOwnPropertyNames(sdk[name].prototype).filter(isPublic)
      const ours = Object.getOwnPropertyNames(sheepdog[name].prototype)
      expect(
        methods.filter((method) => !ours.includes(method)),
        name,
      ).toEqual([])
    }
  })

  it('sections of the system message are the same', () => {
    expect(Object.keys(SYSTEM_MESSAGE_SECTIONS)).toEqual(Object.keys(sdk.SYSTEM_MESSAGE_SECTIONS))
    expect(sheepdog.BuiltInTools).toEqual(sdk.BuiltInTools)
    expect(sheepdog.DisableBypassPermissionsModes).toEqual(sdk.DisableBypassPermissionsModes)
  })
})

/** Methods that the SDK's classes have for themselves: its declarations call them private or internal. */
const internal = [
  // CopilotClient
  'logDebugTiming',
  'logDebug',
  'parseCliUrl',
  'validateSessionFsConfig',
  'setupSessionFs',
  'setupClientGlobalHandlers',
  'acquireGitHubToken',
  'registerGitHubTokenProvider',
  'assignGitHubTokenProvider',
  'commitGitHubTokenProvider',
  'doStart',
  'resolveToolFilterOptions',
  'configDefaultsForMode',
  'experimentalModeForMode',
  'getSystemMessageConfigForMode',
  'updateSessionOptionsForMode',
  'resumeSessionForExtension',
  'resumeSessionInternal',
  'verifyProtocolVersion',
  'buildRuntimeEnv',
  'startCLIServer',
  'connectToServer',
  'startInProcessFfi',
  'connectViaFfi',
  'connectToChildProcessViaStdio',
  'connectToParentProcessViaStdio',
  'connectViaTcp',
  'attachConnectionHandlers',
  'handleSessionEventNotification',
  'handleSessionLifecycleNotification',
  'handleUserInputRequest',
  'handleExitPlanModeRequest',
  'handleAutoModeSwitchRequest',
  'handleHooksInvoke',
  'handleSystemMessageTransform',
  'internalRpc',
  // CopilotSession
  'settleFactoryRun',
  'waitForFactoryRun',
  'upsertOpenCanvasFromEvent',
  'removeOpenCanvasFromEvent',
  'removeOpenCanvas',
  'upsertOpenCanvas',
  'registerTools',
  'getToolHandler',
  'registerCanvases',
  'registerFactories',
  'registerBearerTokenProviders',
  'registerCommands',
  'registerElicitationHandler',
  'registerExitPlanModeHandler',
  'registerAutoModeSwitchHandler',
  'setCapabilities',
  'setOpenCanvases',
  'assertElicitation',
  'registerPermissionHandler',
  'registerUserInputHandler',
  'registerHooks',
  'registerTransformCallbacks',
]

describe('options', () => {
  const conflicts: [ConstructorParameters<typeof CopilotClient>[0], string][] = [
    [{ connection: RuntimeConnection.forUri('1'), gitHubToken: 'x' }, 'gitHubToken'],
    [{ connection: RuntimeConnection.forUri('nonsense:x') }, 'Invalid port in cliUrl'],
    [{ connection: RuntimeConnection.forUri('a:b:c') }, 'Invalid cliUrl format'],
    [{ connection: RuntimeConnection.forStdio({ env: {} }), env: {} }, 'not both'],
    [
      { connection: RuntimeConnection.forTcp({ connectionToken: '' }) },
      'connectionToken must be a non-empty string',
    ],
    [{ mode: 'empty' }, "mode: 'empty'"],
    [{ builtinPluginDirectories: ['relative'] }, 'absolute paths'],
    [
      { sessionFs: { initialCwd: '', sessionStatePath: '/x', conventions: 'posix' } },
      'sessionFs.initialCwd is required',
    ],
  ]

  it.each(conflicts)('%j is refused as by the SDK', (options, text) => {
    expect(() => new CopilotClient(options)).toThrow(text)
    expect(() => new sdk.CopilotClient(options as never)).toThrow(text)
  })

  it('our own are checked by their path', () => {
    expect(() => new CopilotClient({ restart: 'always' as never })).toThrow(
      /^restart: expected "never" or "on-demand"/,
    )
    expect(() => new CopilotClient({ startTimeoutMs: '5s' as never })).toThrow(/^startTimeoutMs: /)
  })

  it('calls without a connection reject, and never throw', async () => {
    const client = new CopilotClient()
    expect((await rejection(client.ping())).message).toBe('Client not connected')
    expect((await rejection(client.listSessions())).code).toBe('CONNECTION_LOST')
    expect(await client.stop()).toEqual([])
  })
})

describe('helpers', () => {
  it("behave as the SDK's", () => {
    const tool = { description: 'd', parameters: { type: 'object' }, handler: () => 'x' }
    expect(defineTool('t', tool)).toEqual(sdk.defineTool('t', tool))
    const results = [
      {
        content: [
          { type: 'text' as const, text: 'a' },
          { type: 'image' as const, data: 'aa', mimeType: 'image/png' },
        ],
      },
      {
        content: [{ type: 'resource' as const, resource: { uri: 'u', text: 't', blob: 'bb' } }],
        isError: true,
      },
    ]
    for (const result of results)
      expect(convertMcpCallToolResult(result)).toEqual(sdk.convertMcpCallToolResult(result))
    expect(new ToolSet().addBuiltIn(['a', '*']).addMcp('m').addCustom('c').toArray()).toEqual(
      new sdk.ToolSet().addBuiltIn(['a', '*']).addMcp('m').addCustom('c').toArray(),
    )
    expect(() => new ToolSet().addMcp('no spaces')).toThrow('Invalid mcp tool name')
    const shell = { kind: 'shell' } as never
    expect(approveAll(shell, { sessionId: 's' })).toEqual({ kind: 'approve-once' })
    expect(
      approveAll({ ...(shell as object), managedApprovalRequired: true } as never, { sessionId: 's' }),
    ).toEqual({ kind: 'no-result' })
    expect(() => approveAll(shell, { sessionId: 's', managedSettingsEnabled: true })).toThrow(
      'managed settings',
    )
    const attributed = createAttributedPermissionResult({ kind: 'reject' }, { by: 'me' } as never)
    expect(createAttributedPermissionResult(attributed, { by: 'you' } as never).result).toEqual({
      kind: 'reject',
    })
    const meta = { name: 'f', description: 'd', phases: [{ title: 'a' }, { title: 'a' }] }
    expect(() => defineFactory({ meta, run: async () => null })).toThrow('declared more than once')
  })

  it('a session file system turns errors into values', async () => {
    const fails = async () => {
      throw Object.assign(new Error('gone'), { code: 'ENOENT' })
    }
    const adapter = createSessionFsAdapter({
      readFile: fails,
      exists: fails,
      writeFile: fails,
      stat: fails,
    } as never)
    expect(await adapter.readFile({ path: 'x' })).toEqual({
      content: '',
      error: { code: 'ENOENT', message: 'gone' },
    })
    expect(await adapter.exists({ path: 'x' })).toEqual({ exists: false })
    expect(await adapter.writeFile({ path: 'x', content: '' })).toEqual({ code: 'ENOENT', message: 'gone' })
    await expect(adapter.sqliteExists()).rejects.toThrow('SQLite is not supported')
  })

  it('classifyResumeError is the rule of resumeSession', () => {
    const error = (message: string) => Object.assign(new Error(message), { rpcCode: -32603 })
    expect(classifyResumeError(error('Session file is corrupted (line 3: x)'))).toMatchObject({
      verdict: 'corrupt',
      line: 3,
    })
    expect(
      classifyResumeError({ code: -32603, message: 'returned no events' }, { log: 'unknown' }).verdict,
    ).toBe('recreate')
    expect(
      classifyResumeError({ code: -32603, message: 'returned no events' }, { log: 'turns' }).verdict,
    ).toBe('not-found')
    expect(classifyResumeError(error('fetch failed'), { log: 'absent' }).verdict).toBe('transient')
    expect(classifyResumeError(new Error('Session not found'), { log: 'absent' }).verdict).toBe('failed')
    expect(classifyResumeError('text').verdict).toBe('failed')
    expect(() => classifyResumeError(error('x'), { log: 'gone' as never })).toThrow(/^evidence\.log: /)
  })
})

describe('a failed resume, against the scripted runtime', () => {
  const resume = (text: string, options = {}, ...args: string[]) => {
    const { client, asked } = scripted(['--resume-error', text, ...args])
    const created = () => asked().filter(({ method }) => method === 'session.create').length
    return {
      client,
      created,
      resumed: client.resumeSession('some-id', { onPermissionRequest: approveAll }, options),
    }
  }

  it.each(['returned no events', 'something unheard of'])(
    '"%s" without a log opens the session afresh',
    async (text) => {
      const { resumed, created } = resume(text)
      expect(await resumed).toMatchObject({ sessionId: 'some-id', resumed: 'recreated' })
      expect(created()).toBe(1)
    },
  )

  it.each([
    ['returned no events', { knownTurns: 2 }, 'RESUME_NOT_FOUND'],
    ['returned no events', { fallback: 'never' }, 'RESUME_NOT_FOUND'],
    ['Session file is corrupted (line 7: x)', { knownTurns: 1 }, 'RESUME_CORRUPT'],
    ['Session file is corrupted (line 7: x)', { fallback: 'unless-corrupt' }, 'RESUME_CORRUPT'],
    ['connect ECONNREFUSED', {}, 'RESUME_TRANSIENT'],
    ['Session is currently in use by another process', {}, 'RESUME_IN_USE'],
  ])('"%s" with %j is told, and creates nothing', async (text, options, code) => {
    const { resumed, created } = resume(text, options)
    const error = await rejection(resumed)
    expect(error).toMatchObject({ code, rpcCode: -32603 })
    expect(error.message).toContain(text)
    expect(error.cause.message).toContain(text)
    expect(created()).toBe(0)
  })

  it('an error of another code is RESUME_FAILED', async () => {
    const { resumed } = resume('Session not found', {}, '--resume-code', '-32000')
    expect(await rejection(resumed)).toMatchObject({ code: 'RESUME_FAILED', rpcCode: -32000 })
  })

  it('is single-flight', async () => {
    const { client, asked } = scripted()
    const [one, two] = await Promise.all([client.resumeSession('x'), client.resumeSession('x')])
    expect(one).toBe(two)
    expect(asked().filter(({ method }) => method === 'session.resume')).toHaveLength(1)
  })

  it('a client that was stopped meanwhile opens nothing', async () => {
    const { client } = scripted(['--silent', 'session.resume'])
    await client.start()
    const resumed = rejection(client.resumeSession('x'))
    await client.ping()
    await client.stop()
    expect((await resumed).code).toBe('SESSION_CLOSED')
  })
})

describe('events', () => {
  it('come to typed handlers, then to those of all types, whatever one throws', async () => {
    const { client } = scripted()
    const session = await client.createSession()
    const seen: string[] = []
    session.on(() => seen.push('all'))
    session.on('assistant.message', () => {
      seen.push('typed')
      throw new Error('ignored')
    })
    const stop = session.on('session.idle', () => seen.push('idle'))
    await session.sendAndWait('go')
    expect(seen.slice(seen.indexOf('typed'))).toEqual(['typed', 'all', 'all', 'all', 'idle', 'all'])
    stop()
    await session.sendAndWait('go')
    expect(seen.filter((name) => name === 'idle')).toHaveLength(1)
  })

  it('that follow an awaited one are there for who subscribes then', async () => {
    const { client } = scripted()
    const session = await client.createSession()
    const next = (type: string) => new Promise<void>((resolve) => void session.on(type, () => resolve()))
    await session.send('go')
    // Each is subscribed to after the one before it came; all of them stand in the pipe by then.
    for (const type of [
      'user.message',
      'assistant.turn_start',
      'assistant.message',
      'assistant.turn_end',
      'session.idle',
    ]) {
      await next(type)
    }
  })

  it('onLifecycle and onEvent hear from the first', async () => {
    const { client } = scripted()
    const seen: string[] = []
    const session = await client.createSession({ onEvent: ({ type }) => seen.push(type) })
    await session.sendAndWait('go')
    expect(seen[0]).toBe('user.message')
  })

  it('a tool is run and answered', async () => {
    const { client, asked } = scripted(['--play', 'asks-tools'])
    const add = defineTool<{ a: number; b: number }>('add', {
      handler: ({ a, b }, { signal }) => ({ sum: a + b, open: !signal?.aborted }),
    })
    const session = await client.createSession({ tools: [add] })
    await session.send('go')
    await expect
      .poll(() => asked().some(({ method }) => method === 'session.tools.handlePendingToolCall'))
      .toBe(true)
    const answer = asked().find(({ method }) => method === 'session.tools.handlePendingToolCall')
    expect(answer?.params).toEqual({
      sessionId: session.sessionId,
      requestId: 'r1',
      result: '{"sum":3,"open":true}',
    })
  })
})

describe('types', () => {
  it('rpc whose parameters may be left out is called without', async () => {
    const { client } = scripted()
    const session = await client.createSession()
    const calls = [session.rpc.model.list(), session.rpc.agent.list(), client.rpc.account.getQuota()]
    for (const call of calls) expect(await rejection(call)).toMatchObject({ rpcCode: -32601 })
  })

  it("a program's handlers and options for the SDK fit here", () => {
    const tool = {} as sdk.Tool<unknown> satisfies sheepdog.Tool<unknown>
    const hooks = {} as sdk.SessionHooks satisfies sheepdog.SessionHooks
    const message = { prompt: '' } as sdk.MessageOptions satisfies sheepdog.MessageOptions
    const provider = { baseUrl: '' } as sdk.ProviderConfig satisfies sheepdog.ProviderConfig
    expect([tool, hooks, message, provider]).toHaveLength(4)
  })
})
