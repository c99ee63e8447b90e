// A turn with a tool, for the specs of those who watch turns.
import diagnostics from 'node:diagnostics_channel'
import { onTestFinished } from 'vitest'
import { command, done, said, session, tool } from './played-agent'

/** The messages of a channel, until the test is over. */
export function heard<Message>(name: string): Message[] {
  const messages: Message[] = []
  const listener = (message: unknown) => void messages.push(message as Message)
  diagnostics.subscribe(name, listener)
  onTestFinished(() => void diagnostics.unsubscribe(name, listener))
  return messages
}

export const toolDone = {
  line: {
    type: 'item.completed',
    item: { ...command, status: 'completed', exit_code: 0, aggregated_output: 'a\n' },
  },
}
export const toolFailed = {
  line: { type: 'item.completed', item: { ...command, status: 'failed', exit_code: 2 } },
}
export const withTool = [session, tool, toolDone, said('Done.'), done]

/** The types of a turn's events, when it has ended. */
export async function types(turn: AsyncIterable<{ type: string }>): Promise<string[]> {
  const seen: string[] = []
  for await (const { type } of turn) seen.push(type)
  return seen
}
