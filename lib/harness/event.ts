import type { ElicitationRequest } from './session/elicitation'
import type { Answer, PermissionRequest } from './session/permission'
import { JsonIterator, type Source } from '../output'
import type { AgentErrorKind, AgentUsage } from './result'

/** Something that an agent did or said, in the same shape for all agents. */
export type AgentEvent =
  /** The session that the turn belongs to. */
  | { type: 'session'; sessionId: string }
  /** Text of the answer: a piece of a message (`delta: true`) or a whole one. A message never arrives as both. */
  | { type: 'text'; text: string; delta: boolean }
  /** The model's reasoning, in pieces or whole. */
  | { type: 'reasoning'; text: string; delta: boolean }
  /** A tool call begins. */
  | { type: 'tool_start'; id: string; name: string; input: unknown }
  /** A tool call has ended; `isError` is true for a refused call too. */
  | { type: 'tool_end'; id: string; name?: string; output?: string; exitCode?: number; isError: boolean }
  /** Tokens since the last event of this type. The sum of these events is the usage of the turn. */
  | ({ type: 'usage' } & AgentUsage)
  /** The agent or the harness tries again; `until` is set while it waits for the end of a usage limit. */
  | { type: 'retry'; message: string; until?: Date }
  /** A note about something that was left out, refused or extended. */
  | { type: 'warning'; message: string }
  /** The sandbox refused a host or a Unix socket. Once for each target; `result.sandbox.refused` has the counts. */
  | { type: 'refused'; kind: 'host' | 'socket'; what: string }
  /** An error that the agent reports. The turn may go on. */
  | { type: 'error'; kind: AgentErrorKind; message: string }
  /** The agent reports the end of its turn. At most one, and the last event. */
  | { type: 'end'; ok: boolean }
  /** A line of output that is no event of this provider. */
  | { type: 'noise'; line: string }
  // Only in sessions:
  /** A permission request, its answer, and what decided: the policy, your handler or the timeout. */
  | { type: 'permission'; request: PermissionRequest; answer: Answer; by: 'policy' | 'handler' | 'timeout' }
  /** Input that the agent asked of the user, and what became of the request. The input itself is left out. */
  | {
      type: 'elicitation'
      request: ElicitationRequest
      action: 'accept' | 'decline' | 'cancel'
      by: 'handler' | 'timeout'
    }
  /** The new mode of the agent. */
  | { type: 'mode'; mode: string }
  /** The session's title, where the agent tells one. */
  | { type: 'title'; title: string }
  /** All commands that a prompt can begin with (`/name`), as the agent describes them. */
  | { type: 'commands'; commands: unknown }
  /** How many tokens of the model's context are used. */
  | { type: 'context'; usedTokens: number; maxTokens: number }
  /** A file that a tool call has changed. Without `oldText` the file is new. */
  | { type: 'diff'; id: string; path: string; oldText?: string; newText: string }
  /** The agent's whole plan, as it is now. */
  | { type: 'plan'; entries: unknown }
  /** All work that runs in the background, as it is now. */
  | { type: 'background'; items: unknown[] }
  /** A prompt of the past conversation that a resumed agent repeats. */
  | { type: 'prompt'; text: string }
  /** A turn begins. `by: "agent"`: the agent began it by itself. */
  | { type: 'turn_start'; turn: number; by: 'prompt' | 'agent' }
  /** The turn has ended. */
  | { type: 'turn_end'; turn: number }

/** @internal A time crosses as milliseconds since 1970. */
export function withDates(event: AgentEvent): AgentEvent {
  if (event.type !== 'retry' || typeof event.until !== 'number') return event
  return { ...event, until: new Date(event.until) }
}

export function events<Event extends AgentEvent = AgentEvent>(
  source: Source,
  revive?: (event: AgentEvent) => Event,
): AsyncIterableIterator<Event> {
  return new JsonIterator<Event>(source, (event) => {
    const dated = withDates(event)
    return revive ? revive(dated) : (dated as Event)
  })
}
