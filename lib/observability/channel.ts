// Messages to subscribers of the channels of node:diagnostics_channel. Without a subscriber nothing is built.
import { channel, type Channel } from 'node:diagnostics_channel'
import type { AgentName } from '../harness/agent_program'
import type { TurnResult } from '../harness/result'
import type { RunResult } from '../process'

/** Message of the diagnostics channel `sheepdog:run`: a program of `run` or `spawn`. */
export type RunMessage =
  | { phase: 'start'; id: number; command: string; args: readonly string[]; cwd?: string | URL }
  | { phase: 'end'; id: number; command: string; durationMs: number; result?: RunResult; error?: Error }

/**
 * Message of the diagnostics channel `sheepdog:turn`: a turn of a harness, or a prompt of a session.
 */
export type TurnMessage =
  | {
      phase: 'start'
      id: number
      provider: AgentName
      prompt: string
      model?: string
      cwd?: string | URL
      resume?: string
      /** `id` of the session that the prompt belongs to. */
      session?: number
    }
  | {
      phase: 'end'
      id: number
      provider: AgentName
      durationMs: number
      result?: TurnResult
      /** Error of a failed turn; `error.result` holds the partial result. */
      error?: Error
    }

/** Message of the diagnostics channel `sheepdog:tool`: a tool that an agent called. */
export type ToolMessage =
  | { phase: 'start'; id: number; turn: number; toolCallId: string; name: string; input: unknown }
  | {
      phase: 'end'
      id: number
      turn: number
      toolCallId: string
      name: string
      durationMs: number
      output?: string
      exitCode?: number
      isError: boolean
      /** True when the turn ended before the tool did. */
      isCut: boolean
    }

/** Message of the diagnostics channel `sheepdog:session`: a session of `Harness.open`. */
export type SessionMessage =
  | { phase: 'start'; id: number; provider: AgentName; cwd?: string | URL; resume?: string }
  | { phase: 'open'; id: number; provider: AgentName; sessionId: string; durationMs: number }
  | {
      phase: 'end'
      id: number
      provider: AgentName
      sessionId?: string
      durationMs: number
      error?: Error
    }

export const channels: Record<keyof Messages, Channel> = {
  run: channel('sheepdog:run'),
  turn: channel('sheepdog:turn'),
  tool: channel('sheepdog:tool'),
  session: channel('sheepdog:session'),
}

interface Messages {
  run: RunMessage
  turn: TurnMessage
  tool: ToolMessage
  session: SessionMessage
}

export function publish<Name extends keyof Messages>(name: Name, message: Messages[Name]): void {
  channels[name].publish(message)
}

let last = 0

/** A new id of a run, a turn, a tool or a session: no two of this process have the same. */
export function nextId(): number {
  return ++last
}
