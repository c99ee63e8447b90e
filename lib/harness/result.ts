import type { RecordFacts, RunResult } from '../process'
import type { TokenUsage } from '../usage'
import type { AgentName } from './agent_program'

/**
 * Reason of an agent's failure. `"auth"`: sign in. `"rate_limit"`, `"quota"` and `"overloaded"`: wait.
 * `"context_length"`: shorten the conversation. `"permission"`: allow the action. `"max_turns"`: the
 * limit `maxTurns` was reached.
 */
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

/** Tokens as the CLI counts them, and cost. */
export interface AgentUsage extends TokenUsage {
  /** Cost in US dollars; absent when the CLI does not report it. */
  costUsd?: number
}

/** The addon's report of a turn's end: its text, and all else as JSON. */
export interface TurnEnd {
  text: string
  facts: string
}

/** @internal */
export function toResult({ text, facts }: TurnEnd): TurnResult {
  return { text, ...(JSON.parse(facts) as Omit<TurnResult, 'text'>) }
}

/** Result of a turn. As `result` of an error it holds what was there before the failure. */
export interface TurnResult<Structured = unknown> {
  /**
   * The agent's final answer. Of an answer longer than 16 MiB it holds a part, and `warnings` say so.
   */
  text: string
  /** The answer as a value that matches `schema`. A library's schema has parsed it. */
  structured?: Structured
  /** Id of the session, for the option `resume`. */
  sessionId?: string
  /** Tokens and cost of this turn, summed over all attempts. */
  usage?: AgentUsage
  /** Number of model answers. */
  turns: number
  /** Number of tool calls. */
  toolCalls: number
  /**
   * Number of processes that were started for the turn: the first, the retries, and a second request
   * for an answer that did not match the schema.
   */
  attempts: number
  /** Milliseconds that the turn waited for a slot before its first start. */
  queuedMs: number
  /** Milliseconds from the first start until the last process tree was gone. */
  durationMs: number
  /** The agent CLI that ran. */
  provider: AgentName
  /** Model that the CLI reports. */
  model?: string
  /** True when the agent reported a good end of turn, but its process did not exit and was killed. */
  recovered: boolean
  /**
   * Notes about options that the CLI could not take, refused tools, extended clocks and ended
   * processes. Each text appears once.
   */
  warnings: string[]
  /** The process of the last attempt. */
  process?: RunResult
  /** The record of this turn. Only with the option `record`. */
  record?: RecordFacts
}
