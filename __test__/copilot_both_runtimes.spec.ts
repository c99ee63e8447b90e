// Against both real runtimes, the newest release's and the newest preview's: what differs between them, and how it looks here.
import { describe, expect, it } from 'vitest'
import { rejection } from './copilot/peer'
import { realRuntime, runtimes } from './copilot/real-runtime'

const { connect, byScript, requests } = realRuntime()

describe.each(runtimes)('the $name runtime', ({ name, path, says }) => {
  async function open(script: object[]) {
    const { client } = connect(undefined, { path })
    return { client, session: await client.createSession(byScript(script, name)) }
  }

  it('holds the model to a schema', async () => {
    const { session } = await open([{ text: '{"n":7}' }])
    const schema = {
      toJSONSchema: () => ({ type: 'object', properties: { n: { type: 'number' } }, required: ['n'] }),
      parse: (value: unknown) => value as { n: number },
    }
    expect(await session.sendAndWait('count', schema, 20_000)).toEqual({ n: 7 })
    const asked = requests().find(({ run }) => run === name)
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
