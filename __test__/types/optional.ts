// Compiled by `npm run check`, under `exactOptionalPropertyTypes`, never run: an optional property may be given as `undefined`.
import { Harness, defineTool, run } from '../../index.js'
import { RuntimeClient } from '../../entries/runtime.js'
import { complete } from '../../entries/model.js'

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
  // @ts-expect-error: what is not optional has to be given
  new Harness({ provider: absent })
}
