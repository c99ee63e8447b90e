// Methods by path: as they are called, as they are listed, and as a test replaces them.
import { expect, it, vi } from 'vitest'
import { rejection, scripted } from './copilot/peer'

async function open() {
  const { client, asked } = scripted()
  const session = await client.createSession()
  const methods = () => asked().map(({ method }) => method)
  return { client, session, methods }
}

it("a method may have the name of one of Function's", async () => {
  const { session, methods } = await open()
  await rejection(session.rpc.permissions.locations.apply({ workingDirectory: '/' } as never))
  expect(methods()).toContain('session.permissions.locations.apply')
})

it('a method that this version does not know is called by its path, whatever its name', async () => {
  const { client, methods } = await open()
  const rpc = client.rpc as any
  await rejection(rpc.newer.apply({ a: 1 }))
  await rejection(rpc.newer.things.call({}))
  await rejection(rpc.models.bind())
  await rejection(rpc.newer.things.name())
  expect(methods()).toEqual(
    expect.arrayContaining(['newer.apply', 'newer.things.call', 'models.bind', 'newer.things.name']),
  )
})

it('methods can be listed, assigned and spied upon', async () => {
  const { client, session, methods } = await open()
  expect(Object.keys(session.rpc)).toEqual(expect.arrayContaining(['model', 'tools', 'permissions']))
  expect(Object.keys(client.rpc.models)).toContain('list')
  expect(client.rpc.models.list).toBe(client.rpc.models.list)
  const list = vi.spyOn(session.rpc.model, 'list').mockResolvedValue({ models: [] } as never)
  expect(await session.rpc.model.list()).toEqual({ models: [] })
  expect(list).toHaveBeenCalledTimes(1)
  list.mockRestore()
  session.rpc.agent.list = async () => ({ agents: [] })
  expect(await session.rpc.agent.list()).toEqual({ agents: [] })
  expect(methods()).not.toContain('session.agent.list')
  await rejection(session.rpc.model.list())
  expect(methods()).toContain('session.model.list')
})

it('a tree is no promise', async () => {
  const { client, session } = await open()
  // oxlint-disable-next-line typescript/await-thenable -- that it is none is what is tested
  expect(await session.rpc).toBe(session.rpc)
  expect((client.rpc as any).models.then).toBeUndefined()
})
