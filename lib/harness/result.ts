import type { RecordFacts, RunResult } from '../process'
import type { TokenUsage } from '../usage'
import type { ProviderName } from './request'

/** Why an agent says that it failed. */
export type AgentErrorKind =
  | 'auth'
  | 'rate_limit'
  | 'quota'
  | 'overloaded'
  | 'context_length'
  | 'invalid_request'
  | 'network'
  | 'server'
  | 'permission'
  | 'max_turns'
  | 'unknown'

/** Tokens as the CLI counts them. */
export interface AgentUsage extends TokenUsage {
  /** US dollars, where the CLI tells. */
  costUsd?: number
}

/** @internal What the addon tells of a turn's end: its text, and all else as JSON. */
export interface TurnEnd {
  text: string
  facts: string
}

/** @internal */
export function toResult({ text, facts }: TurnEnd): TurnResult {
  return { text, ...(JSON.parse(facts) as Omit<TurnResult, 'text'>) }
}

/** What a turn came to; as `result` of an error it is partial. */
export interface TurnResult<Structured = unknown> {
  /** The agent's final answer, whole. */
  text: string
  /** The answer as a value that is valid against `schema`; a library's schema has made it what it makes of it. */
  structured?: Structured
  /** For `resume`. */
  sessionId?: string
  /** Of this turn alone, all attempts summed. */
  usage?: AgentUsage
  /** Answers of the model. */
  turns: number
  /** Tools that were called. */
  toolCalls: number
  /** Processes that were started for it: retries, and the one re-ask for an answer that did not fit the schema. */
  attempts: number
  /** Milliseconds in the queue, before the first start. */
  queuedMs: number
  /** Milliseconds from the first start to the end of the last tree. */
  durationMs: number
  provider: ProviderName
  /** As the CLI reports it. */
  model?: string
  /** The agent had to be killed after its good end of turn. */
  recovered: boolean
  /** What was left out, refused or extended; each once. */
  warnings: string[]
  /** The last process. */
  process?: RunResult
  /** Where it is on record, when that was asked for. */
  record?: RecordFacts
}
