// The tools of `sheepdog mcp`, as the Model Context Protocol lists them.
import { toJson } from '../../lib/json'
import type { Tool } from '../../lib/index'
import type { Agents } from './agents'

/** Longest time that agent_status waits. Many clients end a call after 60 s. */
export const maxWaitMs = 45_000

const id = { type: 'string', description: 'id that start_agent returned' }
const prompt = {
  type: 'string',
  minLength: 1,
  description: 'the task, with all that the agent needs to know',
}
const cwd = { type: 'string', description: "working directory: this server's own folder, or one below it" }
const waitMs = {
  type: 'number',
  minimum: 0,
  maximum: maxWaitMs,
  description: 'milliseconds to wait (default: 0)',
}

function object(properties: object, required: string[] = []) {
  return { type: 'object', properties, required, additionalProperties: false }
}

export function toolsOf(agents: Agents, providers: string[]): Tool[] {
  const tool = (name: string, description: string, parameters: object, handler: Tool['handler']): Tool => ({
    name,
    description,
    parameters: parameters as Tool['parameters'],
    handler: async (input, invocation) => toJson('result', (await handler!(input, invocation)) ?? null),
  })
  return [
    tool(
      'start_agent',
      'Starts a coding agent on a task, and returns its id at once. The agent works in the background: ask agent_status for its ' +
        'progress, then agent_result for its answer.',
      object({ provider: { type: 'string', enum: providers }, prompt, cwd }, ['provider', 'prompt']),
      (input) => {
        const { provider, prompt, cwd } = input as { provider: string; prompt: string; cwd?: string }
        return agents.start(provider, prompt, cwd)
      },
    ),
    tool(
      'agent_status',
      `The state of an agent, and what it did since the last call. With waitMs the call waits for the agent's end: pass ` +
        `${maxWaitMs} and call again until the state is not "running".`,
      object({ id, waitMs }, ['id']),
      (input, { signal }) => {
        const { id, waitMs = 0 } = input as { id: string; waitMs?: number }
        return agents.status(id, waitMs, signal)
      },
    ),
    tool(
      'agent_result',
      'The answer of an agent that ended, or why it failed.',
      object({ id }, ['id']),
      (input) => Promise.resolve(agents.result((input as { id: string }).id)),
    ),
    tool('cancel_agent', 'Ends an agent and everything that it started.', object({ id }, ['id']), (input) =>
      agents.cancel((input as { id: string }).id),
    ),
    tool('list_agents', 'All agents of this server, and which providers it can start.', object({}), () =>
      Promise.resolve(agents.list()),
    ),
  ]
}
