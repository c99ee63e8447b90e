// Cases of agents and of a fleet, for Windows: sessions with a scripted agent, real CLIs (of SHEEPDOG_AGENTS, which ask the model server at
// SHEEPDOG_MODELS), and a fleet with its own server (SHEEPDOG_NATS_SERVER).
import { mkdirSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { Fleet, Harness, equal, listTrees, refusal, work } from './tools.mjs'

const scripted = ['node', join(import.meta.dirname, 'acp/agent.mjs')]
const open = (options = {}) =>
  new Harness({ provider: 'gemini', env }).open({ binary: scripted, cwd: work, ...options })

/** A search path with Node.js, and this folder first. */
const pathOf = (...folders) => [...folders, dirname(process.execPath), process.env.PATH].join(delimiter)
const env = { Path: pathOf() }

const { SHEEPDOG_MODELS, SHEEPDOG_AGENTS } = process.env
/** The address of a model for one agent: the server counts the steps of each by itself. */
const modelOf = (name) => `${SHEEPDOG_MODELS}/s/${encodeURIComponent('text=The answer is 42.')}/${name}/v1`

export const agentCases = {
  async 'a session of two prompts'() {
    const session = await open()
    const texts = [(await session.prompt('hello')).text, (await session.prompt('echo a "b" %PATH%')).text]
    await session.close()
    equal(texts, ['Hello world', 'echo a "b" %PATH%'])
  },
  async "a session's permission request"() {
    const asked = []
    const session = await open({
      policy: { deny: [{ command: 'rm *' }] },
      onPermission({ tool }) {
        asked.push(tool.title)
        return 'allow'
      },
    })
    const texts = [(await session.prompt('ask ls')).text, (await session.prompt('ask rm x')).text]
    await session.close()
    equal([texts, asked], [['chosen: once', 'chosen: no'], ['ls']])
  },
  async 'a prompt that is aborted'() {
    const session = await open()
    const turn = session.start('stall')
    await turn.abort()
    equal(
      [(await refusal(turn.result)).code, (await session.prompt('hello')).text],
      ['AGENT_ABORTED', 'Hello world'],
    )
    await session.close()
  },
  async 'the end of an agent ends its session'() {
    const session = await open()
    equal((await refusal(session.prompt('crash'))).code, 'AGENT_CRASHED')
    await session.close()
  },
  async "a session's agent is gone after close()"() {
    const session = await open()
    const before = await listTrees()
    await session.close()
    equal([before.length, await listTrees()], [1, []])
  },
  async 'a turn of qwen, a real CLI'() {
    const env = {
      OPENAI_API_KEY: 'fake-key-0123456789',
      OPENAI_BASE_URL: modelOf('qwen'),
      OPENAI_MODEL: 'fake-model',
    }
    const { text, toolCalls } = await agent('qwen', env).run('What is the answer?')
    equal([text, toolCalls], ['The answer is 42.', 0])
  },
  async 'a turn of pi, a real CLI'() {
    const models = { fake: { baseUrl: modelOf('pi'), api: 'openai-completions', apiKey: 'fake' } }
    models.fake.models = [{ id: 'fake-model', contextWindow: 200_000, maxTokens: 8000 }]
    mkdirSync(join(home, '.pi/agent'), { recursive: true })
    writeFileSync(join(home, '.pi/agent/models.json'), JSON.stringify({ providers: models }))
    const env = { PI_OFFLINE: '1', PI_TELEMETRY: '0' }
    const { text } = await agent('pi', env, { model: 'fake/fake-model' }).run('What is the answer?')
    equal(text, 'The answer is 42.')
  },
  async 'a job of a fleet, by a handler'() {
    const fleet = await Fleet.connect({ dir: join(work, 'fleet') })
    const worker = await fleet.work({ handlers: { double: ({ data }) => data * 2 } })
    const job = await fleet.submit({ handler: 'double', data: 21 })
    const value = await job.result
    await worker.close()
    await fleet.close()
    equal(value, 42)
  },
  async 'a job of a fleet, by an agent'() {
    const fleet = await Fleet.connect({ dir: join(work, 'fleet') })
    const provider = { name: 'scripted', command: scripted[0], args: scripted.slice(1) }
    const worker = await fleet.work({ harness: { provider, env, permission: 'auto' } })
    const job = await fleet.submit({ provider, prompt: 'hello', cwd: work, permission: 'auto' })
    const { text } = await job.result
    await worker.close()
    await fleet.close()
    equal(text, 'Hello world')
  },
}

const home = join(work, 'home')

/** A CLI as npm puts it on the search path, at home in a folder of its own. */
function agent(provider, env, options = {}) {
  mkdirSync(home, { recursive: true })
  return new Harness({
    provider,
    cwd: work,
    permission: 'auto',
    ...options,
    env: { Path: pathOf(SHEEPDOG_AGENTS), USERPROFILE: home, ...env },
  })
}
