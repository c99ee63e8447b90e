// Values of every wrong kind, at every entry of the Copilot client that takes one: each error has a code.
import { expect, it } from 'vitest'
import * as copilot from '../entries/copilot.js'
import { scripted } from './copilot/peer'

const circle: Record<string, unknown> = {}
circle.circle = circle
const junk: Record<string, unknown> = {
  undefined,
  null: null,
  number: 5,
  text: 'x',
  object: {},
  array: [],
  holes: [null],
  function: () => {},
  symbol: Symbol('s'),
  bigint: 5n,
  map: new Map(),
  circle,
}

/** Called by the runtime alone, or made by a client alone. */
const internal = ['approveAll', 'CopilotSession']

// oxlint-disable-next-line typescript/no-explicit-any -- what is wrong here does not compile
const exported = copilot as Record<string, any>
const isClass = (name: string) => /^[A-Z]/.test(name)

/** The values that this entry answers with an error without a code, each with that error. */
async function uncoded(call: (value: unknown) => unknown): Promise<string[]> {
  const found: string[] = []
  for (const [name, value] of Object.entries(junk)) {
    try {
      await call(value)
    } catch (error) {
      if (typeof (error as { code?: unknown }).code !== 'string') found.push(`${name}: ${error as Error}`)
    }
  }
  return found
}

it('functions and classes', async () => {
  const names = Object.keys(exported).filter((name) => typeof exported[name] === 'function')
  for (const name of names.filter((one) => !internal.includes(one))) {
    const make = exported[name]
    const first = await uncoded((value) => (isClass(name) ? new make(value) : make(value)))
    // An error may be made of anything.
    if (!isClass(name) || !(make.prototype instanceof Error)) expect(first, name).toEqual([])
    if (name.startsWith('define')) {
      expect(await uncoded((value) => make('x', value)), name).toEqual([])
      expect(await uncoded((meta) => make({ meta })), name).toEqual([])
      for (const field of ['phases', 'limits', 'argsSchema', 'name'])
        expect(await uncoded((value) => make({ meta: { phases: [], [field]: value } })), field).toEqual([])
      expect(await uncoded((title) => make({ meta: { phases: [{ title }] } })), name).toEqual([])
    }
  }
  for (const method of ['addBuiltIn', 'addCustom', 'addMcp'])
    expect(
      await uncoded((value) => exported.ToolSet.prototype[method].call(new copilot.ToolSet(), value)),
      method,
    ).toEqual([])
})

it('connections', async () => {
  for (const kind of ['forStdio', 'forTcp', 'forUri']) {
    const make = exported.RuntimeConnection[kind]
    expect(await uncoded((value) => new copilot.CopilotClient({ connection: make(value) })), kind).toEqual([])
    expect(await uncoded((value) => make('localhost:1', value)), kind).toEqual([])
  }
  for (const kind of ['stdio', 'tcp', 'uri'])
    for (const field of ['kind', 'path', 'args', 'env', 'port', 'connectionToken', 'url']) {
      const connection = { kind, path: '/nowhere/runtime', url: 'localhost:1' }
      const start = async (value: unknown) => {
        const client = new exported.CopilotClient({
          connection: { ...connection, [field]: value },
          startTimeoutMs: 2000,
        })
        await client.start().finally(() => client.forceStop())
      }
      expect(await uncoded(start), `${kind}.${field}`).toEqual([])
    }
})

it('configurations of sessions', async () => {
  const { client } = scripted()
  await client.start()
  const fields = [
    ...['model', 'memory', 'infiniteSessions', 'agent', 'defaultAgent', 'managedSettings', 'toolSearch'],
    ...[
      'sessionId',
      'tools',
      'commands',
      'systemMessage',
      'availableTools',
      'excludedTools',
      'provider',
      'providers',
    ],
    ...[
      'models',
      'hooks',
      'mcpServers',
      'customAgents',
      'canvases',
      'signal',
      'configDirectory',
      'cloud',
      'largeOutput',
    ],
    ...['gitHubTokenProvider', 'createSessionFsProvider', 'takeOver', 'githubMcpToolConfig', 'onEvent'],
  ]
  for (const field of fields) {
    const open = (value: unknown) => client.createSession({ [field]: value } as never)
    expect(await uncoded(open), field).toEqual([])
    const resume = (value: unknown) => client.resumeSession('an-id', { [field]: value } as never)
    expect(await uncoded(resume), field).toEqual([])
  }
  for (const method of ['createSession', 'resumeSession', 'inspectSession', 'deleteSession', 'listSessions'])
    expect(await uncoded((value) => (client as never as typeof exported)[method](value)), method).toEqual([])
})
