import type { Changes } from './changes'
import type { RecordFacts, RunResult } from '../process'
import type { SandboxReport } from '../sandbox'
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
  /** Cost in US dollars: by `prices` where they are given, else as the CLI reports it; absent when neither is known. */
  costUsd?: number
  /** Source of `costUsd`: `"agent"` if the CLI reported it, `"prices"` if it was computed from the tokens. */
  costSource?: 'agent' | 'prices'
  /**
   * Tokens as Sheepdog saw them; those from a cache are part of `inputTokens`. Only where the sandbox looks into the
   * traffic: hosts with a secret, and with a budget also the hosts of the agent's models.
   */
  metered?: MeteredUsage
}

/** Tokens as Sheepdog saw them in the answers of models, on their way to the agent. */
export interface MeteredUsage extends TokenUsage {
  /** Number of answers, those to sub-agents included, and those that were asked for and did not come. */
  requests: number
  /** Those among them that did not say their tokens. Sheepdog estimates them by the length of the text. */
  estimated: number
  /** Answers that could not be read. Those to requests of models are estimated by their length; others count for nothing. */
  unread: number
  /** Names of the models, as they came with the answers. */
  models: string[]
}

/** The addon's report of a turn's end: its text, and all else as JSON. */
export interface TurnEnd {
  text: string
  facts: string
}

export function toResult({ text, facts }: TurnEnd): TurnResult {
  const { metered, ...rest } = JSON.parse(facts) as Omit<TurnResult, 'text'> & { metered?: MeteredUsage }
  if (!metered) return { text, ...rest }
  const { inputTokens, outputTokens, cachedInputTokens } = metered
  const usage = rest.usage ?? { inputTokens, outputTokens, cachedInputTokens }
  return { text, ...rest, usage: { ...usage, metered } }
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
  /**
   * Hosts and Unix sockets that the agent's sandbox refused. A turn sums up all its attempts; a prompt of a session
   * lists everything since the session was opened. Only with the option `sandbox`.
   */
  sandbox?: Pick<SandboxReport, 'refused'>
  /**
   * The agent's changes in the repository. Only with the options `changes` and `worktree`.
   */
  changes?: Changes
  /** The record of this turn. Only with the option `record`. */
  record?: RecordFacts
}
