import type { Answer, PermissionRequest } from './session/permission'
import { JsonIterator, type Source } from '../output'
import type { AgentErrorKind, AgentUsage } from './result'

/** What an agent did or said, in one language for all of them. */
export type AgentEvent =
  | { type: 'session'; sessionId: string }
  /** A piece of a message (`delta`), or a whole one; a message comes in pieces or whole, never both. */
  | { type: 'text'; text: string; delta: boolean }
  | { type: 'reasoning'; text: string; delta: boolean }
  | { type: 'tool_start'; id: string; name: string; input: unknown }
  | { type: 'tool_end'; id: string; name?: string; output?: string; exitCode?: number; isError: boolean }
  /** Tokens since the last event of this type: their sum is the turn's. */
  | ({ type: 'usage' } & AgentUsage)
  /** The agent, or the harness, tries again; at `until`, where a usage limit is waited out. */
  | { type: 'retry'; message: string; until?: Date }
  | { type: 'warning'; message: string }
  | { type: 'error'; kind: AgentErrorKind; message: string }
  /** The agent's own end of turn; at most once, the last event. */
  | { type: 'end'; ok: boolean }
  /** Anything that is not an event of this provider. */
  | { type: 'noise'; line: string }
  // Of sessions alone:
  /** A question of the agent's, what it was answered and by whom. */
  | { type: 'permission'; request: PermissionRequest; answer: Answer; by: 'policy' | 'handler' | 'timeout' }
  /** The agent's mode, as it is now. */
  | { type: 'mode'; mode: string }
  /** What the agent means to do: all of it, as it is now. */
  | { type: 'plan'; entries: unknown }
  /** What goes on behind the turns: all of it, as it is now. */
  | { type: 'background'; items: unknown[] }
  /** Words of the user, as a resumed agent repeats them. */
  | { type: 'prompt'; text: string }
  /** What follows belongs to this turn; `agent` began it by itself. */
  | { type: 'turn_start'; turn: number; by: 'prompt' | 'agent' }
  | { type: 'turn_end'; turn: number }

/** @internal A time crosses as milliseconds since 1970. */
export function withDates(event: AgentEvent): AgentEvent {
  if (event.type !== 'retry' || typeof event.until !== 'number') return event
  return { ...event, until: new Date(event.until) }
}

/** @internal */
export function events(source: Source): AsyncIterableIterator<AgentEvent> {
  return new JsonIterator<AgentEvent>(source, withDates)
}
