// The rest of the surface, against the real runtime: TCP, another client's runtime, files and model requests of the program's own.
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { startModelServer } from '../fixtures/model-server.mjs'
import {
  CopilotClient,
  type CopilotClientOptions,
  CopilotRequestHandler,
  RuntimeConnection,
  approveAll,
} from '../entries/copilot.js'
import { rejection, scripted, temporaryFolder } from './copilot/peer'

let server: Awaited<ReturnType<typeof startModelServer>>
let run = 0
beforeAll(async () => {
  server = await startModelServer({ script: 'text=unused' })
})
afterAll(() => server.close())

function connect(options: CopilotClientOptions = {}) {
  const home = temporaryFolder()
  const env = { ...process.env, HOME: home, COPILOT_HOME: undefined }
  const client = new CopilotClient({
    baseDirectory: home,
    workingDirectory: temporaryFolder(),
    ...(options.connection?.kind === 'uri' ? {} : { env, useLoggedInUser: false }),
    ...options,
  })
  onTestFinished(async () => {
    await client.stop()
  })
  return client
}

const baseUrl = (script: string) => `${server.urlFor(script, `f${run++}`)}/v1`
const byScript = (script: string) => ({
  model: 'any',
  provider: { type: 'openai' as const, baseUrl: baseUrl(script), apiKey: 'x' },
  onPermissionRequest: approveAll,
})
const answerOf = (event: { data: { content: string } } | undefined) => event?.data.content

it('a runtime on a TCP port serves two clients', async () => {
  const connectionToken = 'a-token-of-this-test'
  const client = connect({ connection: RuntimeConnection.forTcp({ connectionToken }) })
  const session = await client.createSession(byScript('text=over tcp'))
  expect(answerOf(await session.sendAndWait('hi', 20_000))).toBe('over tcp')
  expect(client.runtimePort).toBeGreaterThan(0)
  const other = connect({
    connection: RuntimeConnection.forUri(`localhost:${client.runtimePort}`, { connectionToken }),
  })
  const resumed = await other.resumeSession(session.sessionId, byScript('text=from the other'))
  expect(answerOf(await resumed.sendAndWait('hi', 20_000))).toBe('from the other')
  const stranger = connect({
    connection: RuntimeConnection.forUri(`127.0.0.1:${client.runtimePort}`, { connectionToken: 'wrong' }),
  })
  expect((await rejection(stranger.start())).code).toMatch(/RPC_ERROR|CONNECTION_LOST/)
  expect(await other.stop()).toEqual([])
  expect((await client.ping('still there')).message).toBe('pong: still there')
})

it('a port where nobody listens is CONNECTION_LOST', async () => {
  const client = connect({ connection: RuntimeConnection.forUri('127.0.0.1:1') })
  expect((await rejection(client.start())).code).toBe('CONNECTION_LOST')
})

it("the program keeps the sessions' files", async () => {
  const files = new Map<string, string>()
  const missing = () => Object.assign(new Error('no such file'), { code: 'ENOENT' })
  const isFolder = (path: string) => [...files.keys()].some((file) => file.startsWith(`${path}/`))
  const client = connect({ sessionFs: { initialCwd: '/', sessionStatePath: '/state', conventions: 'posix' } })
  const session = await client.createSession({
    ...byScript('text=kept elsewhere'),
    createSessionFsProvider: () => ({
      readFile: async (path) => files.get(path) ?? Promise.reject(missing()),
      writeFile: async (path, content) => void files.set(path, content),
      appendFile: async (path, content) => void files.set(path, (files.get(path) ?? '') + content),
      exists: async (path) => files.has(path) || isFolder(path),
      stat: async (path) => {
        if (!files.has(path) && !isFolder(path)) throw missing()
        const time = new Date().toISOString()
        return {
          isFile: files.has(path),
          isDirectory: !files.has(path),
          size: files.get(path)?.length ?? 0,
          mtime: time,
          birthtime: time,
        }
      },
      mkdir: async () => {},
      readdir: async () => [],
      readdirWithTypes: async () => [],
      rm: async (path) => void files.delete(path),
      rename: async (from, to) => {
        files.set(to, files.get(from) ?? '')
        files.delete(from)
      },
    }),
  })
  expect(answerOf(await session.sendAndWait('hi', 20_000))).toBe('kept elsewhere')
  await client.stop()
  expect([...files.keys()].some((path) => path.endsWith('events.jsonl'))).toBe(true)
})

it('a token is asked for when the provider needs one', async () => {
  const client = connect()
  const asked: string[] = []
  const session = await client.createSession({
    model: 'any',
    onPermissionRequest: approveAll,
    provider: {
      type: 'openai',
      baseUrl: baseUrl('text=let in'),
      bearerTokenProvider: async ({ providerName, sessionId }) => {
        asked.push(`${providerName} ${sessionId}`)
        return 'fresh-token'
      },
    },
  })
  expect(answerOf(await session.sendAndWait('hi', 20_000))).toBe('let in')
  expect(asked).toContain(`default ${session.sessionId}`)
  const headers = server.requests.map(({ headers }) => headers.authorization)
  expect(headers).toContain('Bearer fresh-token')
})

it('the program makes the model requests', async () => {
  const seen: string[] = []
  class Watched extends CopilotRequestHandler {
    protected override sendRequest(request: Request, context: never): Promise<Response> {
      seen.push(new URL(request.url).pathname)
      return super.sendRequest(request, context)
    }
  }
  const client = connect({ requestHandler: new Watched() })
  const session = await client.createSession({ ...byScript('text=through us'), streaming: true })
  expect(answerOf(await session.sendAndWait('hi', 20_000))).toBe('through us')
  expect(seen.some((path) => path.endsWith('/chat/completions'))).toBe(true)
})

it('empty mode asks for the tools by name', async () => {
  const client = connect({ mode: 'empty' })
  await expect(client.createSession(byScript('text=x'))).rejects.toThrow("'availableTools'")
  const session = await client.createSession({
    ...byScript('every;;text=alone'),
    availableTools: ['builtin:ask_user'],
  })
  expect(answerOf(await session.sendAndWait('hi', 20_000))).toBe('alone')
})

it('MCP servers that are no objects are refused by their path', async () => {
  const { client } = scripted()
  const refused = async (config: object) => (await rejection(client.createSession(config))) as Error
  const code = 'INVALID_OPTION'
  expect(await refused({ mcpServers: { a: 5 } })).toMatchObject({
    code,
    message: 'mcpServers.a: expected an object, got 5',
  })
  expect(await refused({ mcpServers: [] })).toMatchObject({ code })
  const { message } = await refused({ customAgents: [{ name: 'x', prompt: 'y', mcpServers: { a: null } }] })
  expect(message).toBe('customAgents[0].mcpServers.a: expected an object, got null')
})
