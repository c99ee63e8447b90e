// What runtimes since 1.0.89 have, beside what older ones had: workflows, structured answers, questions of the runtime.
import { describe, expect, it } from 'vitest'
import {
  CopilotClient,
  FactoryResumeError,
  WorkflowResumeError,
  defineFactory,
  defineWorkflow,
  isWorkflowRunTerminal,
} from '../entries/copilot.js'
import { rejection, scripted } from './copilot/peer'

const meta = { name: 'review', description: 'Reviews', phases: [{ title: 'Read' }] }
const numbered = {
  toJSONSchema: () => ({ type: 'object' }),
  parse: (value: unknown) => value as { n: number },
}

describe('workflows', () => {
  it('a definition is checked and frozen', () => {
    const workflow = defineWorkflow({ meta, run: async () => 'done' })
    expect(workflow.meta).toEqual(meta)
    // @ts-expect-error It can't be changed, all the way down.
    expect(() => (workflow.meta.phases[0].title = 'Write')).toThrow(TypeError)
    const twice = { ...meta, phases: [{ title: 'Read' }, { title: 'Read' }] }
    expect(() => defineWorkflow({ meta: twice, run: async () => {} })).toThrow(/^Workflow phase title "Read"/)
    expect(() =>
      defineFactory({ meta: { ...meta, limits: { timeoutSeconds: -1 } }, run: async () => {} }),
    ).toThrow(/^Factory limit "timeoutSeconds"/)
    expect(['completed', 'error', 'paused'].every((status) => isWorkflowRunTerminal(status as never))).toBe(
      true,
    )
    expect(isWorkflowRunTerminal('running')).toBe(false)
  })

  it.each([
    ['factory', 'workflow'],
    ['workflow', 'factory'],
  ] as const)(
    'a runtime that knows only %s is asked by that, also through session.%s',
    async (known, asks) => {
      const { client, asked } = scripted(['--runs', known])
      const session = await client.createSession()
      const run = await session[asks].run('review')
      expect(run).toMatchObject({ runId: 'run-1', status: 'completed' })
      await session[asks].getRun('run-1')
      // What a run is called is a word of the runtime's too; what the run itself gave is left alone.
      const [listed] = await session[asks].listRuns()
      expect(listed).toEqual({
        [`${asks}Name`]: 'review',
        terminal: { failure: { type: `${asks}_limit_reached` } },
        result: { factoryName: 'mine', type: 'factory_x' },
      })
      const methods = asked().map(({ method }) => method)
      expect(methods.filter((method) => /factory|workflow/.test(method ?? ''))).toEqual([
        `session.${asks}.run`,
        `session.${known}.run`,
        `session.${known}.getRun`,
        `session.${known}.listRuns`,
      ])
      const error = await rejection(session[asks].resume('gone'))
      expect(error).toBeInstanceOf(asks === 'factory' ? FactoryResumeError : WorkflowResumeError)
      expect(error.code).toBe('not_found')
    },
  )

  it('what a runtime knows and does not offer is told in its own words', async () => {
    const { client } = scripted(['--runs', 'factory', '--no-runs'])
    const session = await client.createSession()
    for (const word of ['workflow', 'factory'] as const)
      expect(await rejection(session[word].listRuns())).toMatchObject({
        rpcCode: -32601,
        message: 'There is no factory for this session',
      })
  })

  it('a runtime that knows neither says so', async () => {
    const { client } = scripted()
    const session = await client.createSession()
    expect(await rejection(session.workflow.getRun('x'))).toMatchObject({
      rpcCode: -32601,
      method: 'session.workflow.getRun',
    })
  })
})

describe('structured answers', () => {
  it('a schema goes out as the format, and parses the answer', async () => {
    const { client, asked } = scripted(['--play', 'answers-json'])
    const session = await client.createSession()
    expect(await session.sendAndWait('count', numbered, 5_000)).toEqual({ n: 7 })
    const sent = asked().find(({ method }) => method === 'session.send')
    expect(sent?.params?.responseFormat).toEqual({
      type: 'json_schema',
      jsonSchema: { name: 'response', strict: true, schema: { type: 'object' } },
    })
    const event = await session.sendAndWait({ prompt: 'count', responseSchema: { type: 'array' } })
    expect(event?.data.content).toBe('{"n":7}')
  })

  it('an answer of another shape is SESSION_ERROR with the answer', async () => {
    const { client } = scripted()
    const session = await client.createSession()
    const error = await rejection(session.sendAndWait('count', numbered))
    expect(error).toMatchObject({
      code: 'SESSION_ERROR',
      errorType: 'structured_output',
      answer: 'answer to count',
    })
    expect(error.cause).toBeInstanceOf(SyntaxError)
  })

  it('what contradicts itself is INVALID_OPTION', async () => {
    const { client } = scripted()
    const session = await client.createSession()
    const twice = session.sendAndWait({ prompt: 'x', responseSchema: {} }, numbered)
    expect((await rejection(twice)).message).toMatch(/^message\.responseSchema: /)
    const steering = session.sendAndWait({ prompt: 'x', mode: 'immediate' }, numbered)
    expect((await rejection(steering)).message).toMatch(/^message\.mode: /)
  })
})

describe('options', () => {
  it('an unknown option of a client or a message is INVALID_OPTION', async () => {
    expect(() => new CopilotClient({ githubToken: 'x' } as never)).toThrow(
      /^githubToken: .*did you mean gitHubToken/,
    )
    const { client } = scripted()
    const session = await client.createSession()
    for (const wait of [true, false]) {
      const message = { prompt: 'x', atachments: [] } as never
      const error = await rejection(wait ? session.sendAndWait(message) : session.send(message))
      expect(error).toMatchObject({ code: 'INVALID_OPTION' })
      expect(error.message).toMatch(/^message\.atachments: .*attachments/)
    }
  })

  it('diagnostics and instructions go out with the session', async () => {
    const { client, asked } = scripted()
    const diagnostics = { sources: { mcp: { level: 'debug' as const } } }
    await client.createSession({ diagnostics, refreshCustomInstructions: true })
    const created = asked().find(({ method }) => method === 'session.create')
    expect(created?.params).toMatchObject({ diagnostics, refreshCustomInstructions: true })
  })

  it("the runtime's questions about extensions and installations are answered", async () => {
    const { client, asked } = scripted(['--play', 'asks-installations'], {
      extensionLaunchProvider: {
        resolve: async ({ name }) => ({ launch: { executable: `/bin/${name}`, args: [], env: {} } }),
      },
      installationConfirmationHandler: async ({ operationId }, cancellation) => {
        if (operationId === 'slow')
          await new Promise((resolve) => cancellation.onCancellationRequested(resolve))
        return 'decline' as const
      },
    })
    const session = await client.createSession()
    const answer = await session.sendAndWait('go', 5_000)
    expect(JSON.parse(answer!.data.content)).toEqual([
      { launch: { executable: '/bin/ext', args: [], env: {} } },
      { confirmationId: 'c', reviewFingerprint: 'f', decision: 'decline' },
      'Request installations.confirm failed with message: The installation question was withdrawn',
    ])
    expect(asked().map(({ method }) => method)).toContain('registerExtensionLaunchProvider')
  })
})

it('types: the message of send has fields, and every permission request says whether a person must answer', () => {
  type Session = Awaited<ReturnType<CopilotClient['createSession']>>
  const attachments: Parameters<Session['send']>[0]['attachments'] = []
  const required = (request: import('../entries/copilot.js').PermissionRequest) =>
    request.managedApprovalRequired
  expect([attachments, required({ kind: 'shell' } as never)]).toEqual([[], undefined])
})
