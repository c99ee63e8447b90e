// Against both real runtimes, the newest release's and the newest preview's: what differs between them, and how it looks here.
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { startModelServer } from '../fixtures/model-server.mjs'
import { CopilotClient, RuntimeConnection, approveAll } from '../index.js'
import { rejection, temporaryFolder } from './copilot/peer'

let server: Awaited<ReturnType<typeof startModelServer>>
beforeAll(async () => {
  server = await startModelServer({ script: 'text=unused' })
})
afterAll(() => server.close())

const platform = `${process.platform}-${process.arch}`
const below = join(__dirname, '..', 'node_modules')
const runtimes = [
  { name: 'release', modules: below, says: 'Agent factories' },
  {
    name: 'preview',
    modules: join(below, 'copilot-sdk-preview/node_modules'),
    says: 'Dynamic workflows',
  },
]

describe.each(runtimes)('the $name runtime', ({ name, modules, says }) => {
  async function open(script: object[]) {
    const home = temporaryFolder()
    const path = join(modules, `@github/copilot-sdk-${platform}/prebuilds/${platform}/copilot-runtime`)
    const client = new CopilotClient({
      connection: RuntimeConnection.forStdio({ path }),
      baseDirectory: home,
      useLoggedInUser: false,
      env: { ...process.env, HOME: home, COPILOT_HOME: undefined },
      workingDirectory: temporaryFolder(),
    })
    onTestFinished(async () => {
      await client.stop()
    })
    const provider = { type: 'openai' as const, baseUrl: `${server.urlFor(script, name)}/v1`, apiKey: 'x' }
    return {
      client,
      session: await client.createSession({ model: 'any', provider, onPermissionRequest: approveAll }),
    }
  }

  it('holds the model to a schema', async () => {
    const { session } = await open([{ text: '{"n":7}' }])
    const schema = {
      toJSONSchema: () => ({ type: 'object', properties: { n: { type: 'number' } }, required: ['n'] }),
      parse: (value: unknown) => value as { n: number },
    }
    expect(await session.sendAndWait('count', schema, 20_000)).toEqual({ n: 7 })
    const asked = server.requests.find(({ run }) => run === name)
    expect(asked?.body.response_format).toMatchObject({
      type: 'json_schema',
      json_schema: { schema: schema.toJSONSchema() },
    })
  })

  it('is asked for scripted runs by its own word, whichever the program has', async () => {
    const { session } = await open([])
    for (const word of ['factory', 'workflow'] as const) {
      const error = await rejection(session[word].listRuns())
      expect(error.message).toBe(`${says} are not available for this session`)
    }
  })

  it('answers what only the preview knows, or says that it does not', async () => {
    const { client } = await open([])
    const asked = client.rpc.sandbox.getHostSupport()
    if (name === 'preview') expect(await asked).toMatchObject({ capabilities: expect.any(Array) })
    else expect(await rejection(asked)).toMatchObject({ rpcCode: -32601, method: 'sandbox.getHostSupport' })
  })
})
