// Compiled, never run: programs written for the SDK's types of its RPC methods.
import type { CopilotClient, CopilotSession, FactoryLimits } from '../../entries/copilot.js'

export async function results(client: CopilotClient, session: CopilotSession): Promise<unknown[]> {
  const { settings } = await client.rpc.user.settings.get()
  const { servers } = await client.rpc.mcp.config.list()
  const { content } = await session.rpc.ui.elicitation({} as never)
  const values = Object.values(content ?? {}).map((value) => value.toString())
  return [
    Object.values(settings).map(({ value }) => value),
    Object.keys(servers).map((name) => servers[name]!),
    values,
  ]
}

export async function parameters(client: CopilotClient, session: CopilotSession): Promise<void> {
  await client.rpc.account.logout({ selectionId: 'a' })
  const limits: FactoryLimits = { maxAiCredits: 1 }
  await session.send({ prompt: `${limits.maxAiCredits}` })
  const either = 'text' as string | { prompt: string }
  await session.send(either)
  await session.sendAndWait(either, 1_000)
}
