// Lists that a caller gives, at every entry: a hole in one is refused as any other wrong item, and is never passed over.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as root from '../index.js'
import { Fleet } from '../entries/fleet.js'
import { complete } from '../entries/model.js'
import { scriptedAgent } from '../entries/testing.js'
import { rejection } from './copilot/peer'

/** A list that begins with a hole. */
function holed(...behind: unknown[]): never {
  const list: unknown[] = []
  behind.forEach((value, at) => (list[at + 1] = value))
  if (behind.length === 0) list.length = 1
  return list as never
}

const codex = (options: object) => async () => new root.Harness({ provider: 'codex', ...options })
const program = (options: object) => () => root.run('true', [], options)
const model = { baseUrl: 'http://127.0.0.1:1', model: 'm', messages: [{ role: 'user', content: 'x' }] }

let fleet: Fleet
beforeAll(async () => {
  fleet = await Fleet.connect({ memory: true })
})
afterAll(() => fleet.close())

const job = (options: object) => () => fleet.submit({ provider: 'codex', prompt: 'x', ...options })

describe('a list with a hole is refused', () => {
  it.each<[string, () => Promise<unknown>]>([
    ['args', () => root.run('true', holed())],
    ['inheritEnv', program({ inheritEnv: holed() })],
    ['retry.on', program({ retry: { attempts: 2, on: holed() } })],
    ['sandbox.write', program({ sandbox: { write: holed() } })],
    ['sandbox.network.ports', program({ sandbox: { network: { ports: holed() } } })],
    ['sandbox.network.hosts', program({ sandbox: { network: { hosts: holed() } } })],
    ['json({ types })', async () => root.spawn('true').json({ types: holed() }).next()],
    ['allow', codex({ allow: holed() })],
    ['binary', codex({ binary: holed() })],
    ['images', codex({ images: holed() })],
    ['mcpServers', codex({ mcpServers: holed() })],
    ['mcpServers, a server behind it', codex({ mcpServers: holed({ name: 'a', url: 'http://x' }) })],
    ['provider.state', codex({ provider: { name: 'a', command: 'a', state: holed() } })],
    ['worktree.include', codex({ worktree: { include: holed() } })],
    ['agents of a race', () => root.race('x', { agents: holed() })],
    ['agents of a race, one behind it', () => root.race('x', { agents: holed({ provider: 'codex' }) })],
    ['verify of a race', () => root.race('x', { agents: [{ provider: 'codex' }], verify: holed() })],
    ['reapTrees', () => root.reapTrees(holed())],
    ['messages', () => complete({ ...model, messages: holed() })],
    ['tools of a model', () => complete({ ...model, tools: holed() })],
    ['steps', async () => scriptedAgent(holed())],
    ['a job: tags', job({ tags: holed() })],
    ['a job: mcpServers', job({ mcpServers: holed() })],
    ['states', () => fleet.prune({ olderThanMs: 0, states: holed() })],
    ['queues', () => fleet.work({ queues: holed() })],
  ])('%s', async (_, call) => {
    expect(await rejection(call())).toMatchObject({ code: 'INVALID_OPTION' })
  })

  it('the parts of a prompt', async () => {
    const provider = scriptedAgent([{ say: 'never' }])
    await using session = await new root.Harness({ provider }).open({ permission: 'auto' })
    const refused = { code: 'INVALID_OPTION', message: expect.stringMatching(/^prompt\[0\]: /) }
    expect(await rejection(session.prompt(holed({ type: 'text', text: 'x' })))).toMatchObject(refused)
    expect(provider.prompts()).toEqual([])
  })

  it('many jobs: the answer of its place has the error', async () => {
    const answers = await fleet.submitMany(holed({ handler: 'h', id: 'behind' }))
    expect(answers).toMatchObject([
      { id: '', error: { code: 'INVALID_OPTION' } },
      { id: 'behind', known: false },
    ])
  })
})

it('an empty list of states is refused: it would mean all jobs', async () => {
  const refused = { code: 'INVALID_OPTION' }
  expect(await rejection(fleet.prune({ olderThanMs: 0, states: [] }))).toMatchObject(refused)
  expect(await rejection(fleet.retryMany({ state: [] }))).toMatchObject(refused)
  expect(await rejection(fleet.jobs({ state: [] }).next())).toMatchObject(refused)
})
