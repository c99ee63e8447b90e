// What goes over the wire beside the Copilot SDK's newest release and newest preview: the same calls, the same frames.
import * as release from '@github/copilot-sdk'
import * as preview from 'copilot-sdk-preview'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import * as sheepdog from '../entries/copilot.js'
import { type Conversation, type Frame, type Sdk, type Spoken, speak } from './copilot/conversation'
import { clientSamples, messageSamples, sessionSamples } from './copilot/samples'
import { events, questions } from './copilot/scenarios'

const others: [name: string, sdk: Sdk][] = [
  ['1.0.14', release],
  ['1.0.15-preview', preview],
]
/** What only runtimes since 1.0.89 know, and so only the newer SDK. */
const newer = [
  'diagnostics',
  'refreshCustomInstructions',
  'responseSchema',
  'extensionLaunchProvider',
  'installationConfirmationHandler',
]

type Program = (sdk: Sdk) => (conversation: Conversation) => Promise<void>
type Circumstances = (sdk: Sdk) => { args?: string[]; options?: Record<string, unknown> }

/** What the other and this package say, in that order. */
async function both(
  sdk: Sdk,
  program: Program,
  circumstances: Circumstances = () => ({}),
): Promise<[Spoken, Spoken]> {
  const spoken = [sdk, sheepdog].map((one) => {
    const { args = [], options = {} } = circumstances(one)
    return speak(one, program(one), { args: ['--knows', knows.join(','), ...args], options })
  })
  return (await Promise.all(spoken)) as [Spoken, Spoken]
}

/** Random ids are all alike. */
const without = (text: string) => text.replace(/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f-]{21}/g, '<uuid>')
const plain = <T>(value: T): T => JSON.parse(without(JSON.stringify(value))) as T

/** Frames by the session that they are about. */
function bySession(frames: Frame[]): Record<string, Frame[]> {
  const all: Record<string, Frame[]> = {}
  for (const frame of plain(frames)) {
    const { sessionId = '' } = (frame.params ?? {}) as { sessionId?: string }
    ;(all[sessionId] ??= []).push(frame)
  }
  return all
}

/** What the runtime of these tests answers beside what it does anyway. */
const knows = [
  'plugins.builtin.set',
  'sessionFs.setProvider',
  'llmInference.setProvider',
  'session.tools.handlePendingToolCall',
  'session.permissions.handlePendingPermissionRequest',
  'session.ui.handlePendingElicitation',
  'session.commands.handlePendingCommand',
  'session.mcp.oauth.handlePendingRequest',
]

const settled = (promise: unknown) => Promise.resolve(promise).catch(() => {})

describe.each(others)('beside %s', (name, sdk) => {
  const isKnown = (option: string) => name !== '1.0.14' || !newer.includes(option)

  it('every option of a session', async () => {
    const options = Object.keys(sessionSamples(sdk)).filter((option) => option !== 'sessionId')
    const [theirs, ours] = await both(sdk, (which) => async ({ client }) => {
      const samples: Record<string, unknown> = sessionSamples(which)
      for (const option of ['', ...options.filter(isKnown)]) {
        const config = option ? { [option]: samples[option] } : {}
        await client.createSession({ sessionId: `create ${option}`, ...config })
        await client.resumeSession(`resume ${option}`, config)
      }
    })
    expect(Object.keys(bySession(theirs.frames)).length).toBeGreaterThan(2 * options.length - 5)
    expect(bySession(ours.frames)).toEqual(bySession(theirs.frames))
  })

  it('a session of an empty client', async () => {
    const [theirs, ours] = await both(
      sdk,
      (which) =>
        async ({ client }) => {
          const availableTools = new which.ToolSet().addBuiltIn(which.BuiltInTools.Isolated)
          await client.createSession({ sessionId: 'bare', availableTools })
          await client.createSession({
            sessionId: 'told',
            availableTools,
            enableSkills: true,
            memory: { enabled: true },
            coauthorEnabled: true,
            systemMessage: { content: 'more' },
          })
          await client.resumeSession('back', { availableTools: ['bash'] })
        },
      () => ({ options: { mode: 'empty' } }),
    )
    expect(bySession(ours.frames)).toEqual(bySession(theirs.frames))
    expect(shown(ours.env)).toEqual(shown(theirs.env))
  })

  it.each(Object.keys(clientSamples(sdk)).filter(isKnown))('the option %s of a client', async (option) => {
    const home = option === 'baseDirectory' ? {} : { baseDirectory: '/tmp/home' }
    const [theirs, ours] = await both(
      sdk,
      () =>
        async ({ client }) => {
          await client.start()
          await settled(client.listModels())
        },
      (which) => ({
        options: { ...home, [option]: (clientSamples(which) as Record<string, unknown>)[option] },
      }),
    )
    expect(plain(ours.frames)).toEqual(plain(theirs.frames))
    expect(ours.args).toEqual(theirs.args)
    // Runtimes before 1.0.89 do not look at it.
    const more = name === '1.0.14' ? { COPILOT_RUNTIME_PROCESS_FILE_LOGGING: '1' } : {}
    expect(shown(ours.env)).toEqual({ ...shown(theirs.env), ...more })
  })

  it('messages, with every option', async () => {
    const [theirs, ours] = await both(sdk, () => async ({ client }) => {
      const session = await client.createSession({ sessionId: 's' })
      await session.send('text')
      for (const [option, value] of Object.entries(messageSamples).filter(([option]) => isKnown(option)))
        await session.send({ prompt: 'x', [option]: value })
      await session.sendAndWait('waited', 5_000)
      await session.sendAndWait({ prompt: 'waited' })
    })
    // Ours asks newer runtimes to wait by themselves, once a session; this one does not know that method.
    const isAsked = ({ method }: Frame) => method === 'session.sendAndWait'
    expect(ours.frames.filter(isAsked)).toHaveLength(1)
    expect(plain(ours.frames.filter((frame) => !isAsked(frame)))).toEqual(plain(theirs.frames))
  })

  it('methods of clients and sessions', async () => {
    const [theirs, ours] = await both(sdk, () => async ({ client }) => {
      await client.start()
      const session = await client.createSession({ sessionId: 's' })
      const calls: (() => unknown)[] = [
        () => client.ping('hi'),
        () => client.ping(),
        () => client.getStatus(),
        () => client.getAuthStatus(),
        () => client.listModels(),
        () => client.listSessions(),
        () => client.listSessions({ workingDirectory: '/tmp', gitRoot: '/g', branch: 'b' }),
        () => client.getSessionMetadata('x'),
        () => client.getLastSessionId(),
        () => client.deleteSession('x'),
        () => client.getForegroundSessionId(),
        () => client.setForegroundSessionId('x'),
        () => session.getEvents(),
        () => session.setModel('m'),
        () =>
          session.setModel('m', { reasoningEffort: 'low', reasoningSummary: 'none', contextTier: 'default' }),
        () => session.setModel('m', { modelCapabilities: { supports: { vision: false } }, autoTier: 'fast' }),
        () => session.setAutoTier('fast'),
        () => session.setAutoTier(null),
        () => session.log('a'),
        () => session.log('a', { level: 'warning', ephemeral: true }),
        () => session.abort(),
        () => session.disconnect(),
      ]
      for (const call of calls) await settled((async () => call())())
    })
    expect(ours.frames.length).toBeGreaterThan(20)
    expect(plain(ours.frames)).toEqual(plain(theirs.frames))
  })

  it('every method of RPC', async () => {
    const parameters = { a: 1, nested: { b: [null] } }
    const ask = async (tree: object, path: string[], asked: [string, object[]][]): Promise<void> => {
      for (const [name, branch] of Object.entries(tree)) {
        if (typeof branch === 'object') await ask(branch, [...path, name], asked)
        else {
          const takes = branch.length > 0 ? [parameters] : []
          asked.push([[...path, name].join('.'), takes])
          await settled((async () => branch(...takes))())
        }
      }
    }
    const asked: [path: string, parameters: object[]][] = []
    const frames = await speak(sdk, async ({ client }) => {
      await client.start()
      const session = await client.createSession({ sessionId: 's' })
      await ask(client.rpc, ['client'], asked)
      await ask(session.rpc, ['session'], asked)
    })
    expect(asked.length).toBeGreaterThan(300)
    const same = await speak(sheepdog, async ({ client }) => {
      await client.start()
      const session = await client.createSession({ sessionId: 's' })
      for (const [path, takes] of asked) {
        const [which, ...names] = path.split('.')
        const tree = which === 'client' ? client.rpc : session.rpc
        await settled(names.reduce((branch, name) => branch[name], tree)(...takes))
      }
    })
    expect(plain(same.frames)).toEqual(plain(frames.frames))
  })

  it('answers to events', async () => {
    // What a handler throws is printed there.
    const printed = vi.spyOn(console, 'error').mockImplementation(() => {})
    onTestFinished(() => printed.mockRestore())
    const [theirs, ours] = await both(
      sdk,
      () =>
        async ({ client, frames, got }) => {
          await client.start()
          for (const [title, event, method, handlers] of events(sdk)) {
            const answered = frames().filter((frame) => frame.method === method).length
            const session = await client.createSession({ sessionId: title, ...handlers })
            await session.send(JSON.stringify(event))
            await got(method, answered + 1)
          }
        },
      () => ({ args: ['--play', 'sends-event'] }),
    )
    expect(bySession(ours.frames)).toEqual(bySession(theirs.frames))
  })

  it('answers to questions', async () => {
    const [theirs, ours] = await both(
      sdk,
      (which) =>
        async ({ client, got }) => {
          for (const [at, [title, question, handlers]] of questions.entries()) {
            const session = await client.createSession({ sessionId: title, ...handlers(which) })
            await session.send(JSON.stringify(question))
            await got(undefined, at + 1)
          }
        },
      () => ({ args: ['--play', 'asks-back'] }),
    )
    expect(answers(ours.frames)).toEqual(answers(theirs.frames))
  })
})

/** The part of an environment that is for the runtime. */
function shown(env: Record<string, string>): Record<string, string> {
  const told = Object.entries(env).filter(([name]) => /^(COPILOT|OTEL|NODE_DEBUG|ONLY|GITHUB)/.test(name))
  return plain(Object.fromEntries(told))
}

/** Answers; the words of an error are its thrower's. */
function answers(frames: Frame[]): unknown[] {
  return plain(frames)
    .filter(({ method }) => method === undefined)
    .map(({ result, error }, at) => [questions[at]![0], error ? { code: error.code } : { result }])
}
