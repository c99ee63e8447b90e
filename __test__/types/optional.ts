// Compiled by `npm run check`, under `exactOptionalPropertyTypes`, never run: an optional property may be given as `undefined`.
// The declarations of all entries are checked too.
import { Harness, defineTool, run } from '../../index.js'
import type { CopilotClient } from '../../entries/copilot.js'
import type { Fleet } from '../../entries/fleet.js'
import { RuntimeClient } from '../../entries/runtime.js'
import { complete } from '../../entries/model.js'
import { scriptedAgent } from '../../entries/testing.js'

export async function listed(absent: undefined, copilot: CopilotClient, fleet: Fleet): Promise<void> {
  await copilot.listSessions({ workingDirectory: absent, branch: absent })
  await fleet.jobs({ state: absent, limit: absent }).next()
}

export async function given(absent: undefined, harness: Harness, client: RuntimeClient): Promise<void> {
  await run('true', [], { cwd: absent, idleTimeoutMs: absent, sandbox: { write: absent }, signal: absent })
  new Harness({ provider: 'codex', model: absent, retry: { attempts: absent }, limit: absent })
  await harness.run('hi', { resume: absent, schema: absent })
  await using session = await harness.open({
    resume: absent,
    onPermission: absent,
    policy: { allow: absent, deny: [{ kind: 'read', command: absent }] },
    tools: [defineTool('x', { description: absent, handler: () => 1 })],
    mcpServers: [{ name: 'x', command: 'y', args: absent }],
  })
  await session.prompt('hi', { schema: absent, timeoutMs: absent })
  await session.cancel({ strays: absent })
  await client.query('hi', { model: absent, onAssistantMessage: absent })
  await complete({ model: 'x', prompt: 'y', onText: absent } as never)
  scriptedAgent([{ on: absent, say: 'x' }])
  // @ts-expect-error: what is not optional has to be given
  new Harness({ provider: absent })
}
