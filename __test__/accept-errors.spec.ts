// Servers of this package in the host's process, when the system has no file left for a connection: Node tells of that by 'error',
// which would end the host.
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it, vi } from 'vitest'
import { RuntimeClient, serveRuntime } from '../entries/runtime.js'

const built = createRequire(import.meta.url)
const { ToolServer } = built(
  '../dist/lib/harness/session/tool_server',
) as typeof import('../lib/harness/session/tool_server')
// Their types lead to a file that can only be read as CommonJS.
const { serveView } = built('../dist/cli/view/server') as {
  serveView(options: { source: object }): Promise<{ close(): Promise<void> }>
}
const { RecordSource } = built('../dist/cli/view/record_source') as {
  RecordSource: { open(folder: string): Promise<object> }
}
const { listenForEnd } = built('../dist/cli/keeper') as typeof import('../cli/keeper')

const folder = mkdtempSync(join(tmpdir(), 'sheepdog-accept-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

type Close = () => unknown
const servers: Record<string, () => Promise<Close>> = {
  async 'tools of a session'() {
    const server = await ToolServer.start([])
    return () => server.close()
  },
  async 'files of a runtime'() {
    const runtime = await serveRuntime({ port: 0 })
    const client = await RuntimeClient.connect(runtime.url)
    await client.receive({ folder: join(folder, 'received') })
    return () => client.close().then(() => runtime.close())
  },
  async 'the view'() {
    const view = await serveView({ source: await RecordSource.open(folder) })
    return () => view.close()
  },
  async 'the word that ends a keeper'() {
    return await listenForEnd(join(folder, 'keepers'), () => {})
  },
}

it.each(Object.keys(servers))('%s: serves on', async (name) => {
  const listen = vi.spyOn(Server.prototype, 'listen')
  const close = await servers[name]!()
  const server = listen.mock.contexts.at(-1) as Server
  listen.mockRestore()
  for (let times = 0; times < 2; times++) server.emit('error', new Error('accept EMFILE'))
  expect(server.listening).toBe(true)
  await close()
  server.close()
})
