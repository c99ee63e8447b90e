// Hooks: the program's word at points of a session's life. A hook that throws counts as one that said nothing.
import type { ToolResultObject } from '../tool/result'

/** Input of every hook. */
export interface BaseHookInput {
  /** Id of the session. */
  sessionId: string
  /** Time of the event. */
  timestamp: Date
  /** Working directory of the session. */
  workingDirectory: string
}

type Hook<Input, Output> = (
  input: Input,
  invocation: { sessionId: string },
) => Promise<Output | void> | Output | void

interface CommonHookOutput {
  /** Text that is added for the model. */
  additionalContext?: string
  /** Whether the output of the hook is hidden. */
  suppressOutput?: boolean
}

/** A tool is about to run. */
export interface PreToolUseHookInput extends BaseHookInput {
  /** Name of the tool. */
  toolName: string
  /** Arguments of the call. */
  toolArgs: unknown
}
/** Decision on a tool call. */
export interface PreToolUseHookOutput extends CommonHookOutput {
  /** Whether the call is allowed, denied or asked about. */
  permissionDecision?: 'allow' | 'deny' | 'ask'
  /** Reason of the decision. */
  permissionDecisionReason?: string
  /** Arguments to use instead. */
  modifiedArgs?: unknown
}
/** Called before a tool runs. */
export type PreToolUseHandler = Hook<PreToolUseHookInput, PreToolUseHookOutput>

/** A tool of an MCP server is about to run. */
export interface PreMcpToolCallHookInput extends BaseHookInput {
  /** Id of the call. */
  toolCallId?: string
  /** Name of the MCP server. */
  serverName: string
  /** Name of the tool. */
  toolName: string
  /** Arguments of the call. */
  arguments: unknown
  /** Metadata of the call. */
  _meta?: Record<string, unknown>
}
/** Changes to a call of an MCP tool. */
export interface PreMcpToolCallHookOutput {
  /** Metadata to send instead; null sends none. */
  metaToUse?: Record<string, unknown> | null
}
/** Called before a tool of an MCP server runs. */
export type PreMcpToolCallHandler = Hook<PreMcpToolCallHookInput, PreMcpToolCallHookOutput>

/** A tool has succeeded. */
export interface PostToolUseHookInput extends PreToolUseHookInput {
  /** Result of the call. */
  toolResult: ToolResultObject
}
/** Changes to a tool's result. */
export interface PostToolUseHookOutput extends CommonHookOutput {
  /** Result to use instead. */
  modifiedResult?: ToolResultObject
}
/** Called after a tool has succeeded. */
export type PostToolUseHandler = Hook<PostToolUseHookInput, PostToolUseHookOutput>

/** A tool has failed. */
export interface PostToolUseFailureHookInput extends PreToolUseHookInput {
  /** Error of the call. */
  error: string
}
/** Text for the model after a failed call. */
export interface PostToolUseFailureHookOutput {
  /** Text that is added for the model. */
  additionalContext?: string
}
/** Called after a tool has failed. */
export type PostToolUseFailureHandler = Hook<PostToolUseFailureHookInput, PostToolUseFailureHookOutput>

/** A prompt was submitted. */
export interface UserPromptSubmittedHookInput extends BaseHookInput {
  /** The prompt. */
  prompt: string
}
/** Changes to a prompt. */
export interface UserPromptSubmittedHookOutput extends CommonHookOutput {
  /** Prompt to use instead. */
  modifiedPrompt?: string
}
/** Called when a prompt is submitted. */
export type UserPromptSubmittedHandler = Hook<UserPromptSubmittedHookInput, UserPromptSubmittedHookOutput>

/** The runtime has added its own text to a prompt, and has not stored it yet. */
export interface UserPromptTransformedHookInput extends BaseHookInput {
  /** The prompt as it was submitted. */
  prompt: string
  /** The prompt with the runtime's text. */
  transformedPrompt: string
}
/** Changes to the prompt. */
export interface UserPromptTransformedHookOutput {
  /** Prompt to use instead. */
  modifiedTransformedPrompt?: string
}
/** Called after the runtime has added its text to a prompt, and before it is stored. */
export type UserPromptTransformedHandler = Hook<
  UserPromptTransformedHookInput,
  UserPromptTransformedHookOutput
>

/** A session has started. */
export interface SessionStartHookInput extends BaseHookInput {
  /** How it was started. */
  source: 'startup' | 'resume' | 'new'
  /** Its first prompt. */
  initialPrompt?: string
}
/** Changes to a session at its start. */
export interface SessionStartHookOutput {
  /** Text that is added for the model. */
  additionalContext?: string
  /** Settings to use instead. */
  modifiedConfig?: Record<string, unknown>
}
/** Called when a session starts. */
export type SessionStartHandler = Hook<SessionStartHookInput, SessionStartHookOutput>

/** A session has ended. */
export interface SessionEndHookInput extends BaseHookInput {
  /** Reason of the end. */
  reason: 'complete' | 'error' | 'abort' | 'timeout' | 'user_exit'
  /** Last message of the session. */
  finalMessage?: string
  /** Error that ended the session. */
  error?: string
}
/** Steps after the end of a session. */
export interface SessionEndHookOutput {
  /** Whether the output of the hook is hidden. */
  suppressOutput?: boolean
  /** Actions for cleaning up. */
  cleanupActions?: string[]
  /** Summary of the session. */
  sessionSummary?: string
}
/** Called when a session ends. */
export type SessionEndHandler = Hook<SessionEndHookInput, SessionEndHookOutput>

/** An error has occurred. */
export interface ErrorOccurredHookInput extends BaseHookInput {
  /** Message of the error. */
  error: string
  /** Part of the work in which it occurred. */
  errorContext: 'model_call' | 'tool_execution' | 'system' | 'user_input'
  /** Whether the work can go on. */
  recoverable: boolean
}
/** Decision after an error. */
export interface ErrorOccurredHookOutput {
  /** Whether the output of the hook is hidden. */
  suppressOutput?: boolean
  /** Try again, skip the step or abort. */
  errorHandling?: 'retry' | 'skip' | 'abort'
  /** How often to try again. */
  retryCount?: number
  /** Text for the user. */
  userNotification?: string
}
/** Called when an error occurs. */
export type ErrorOccurredHandler = Hook<ErrorOccurredHookInput, ErrorOccurredHookOutput>

/** The main agent has stopped: nothing is pending, and it was not aborted. */
export interface AgentStopHookInput extends BaseHookInput {
  /** Reason of the stop, for example `"end_turn"`. */
  stopReason?: string
  /** Path of the session's transcript. */
  transcriptPath?: string
  /**
   * True when an earlier `"block"` of this hook has caused this stop. Use it to avoid an endless loop.
   */
  stopHookActive?: boolean
}
/** Whether the agent may stop. */
export interface AgentStopHookOutput {
  /** `"block"` keeps the agent working. */
  decision?: 'block'
  /** Message that the agent then continues with. */
  reason?: string
}
/** Called when the main agent stops. */
export type AgentStopHandler = Hook<AgentStopHookInput, AgentStopHookOutput>

/** Functions that are called at certain moments of a session. */
export interface SessionHooks {
  /** Called before a tool runs. */
  onPreToolUse?: PreToolUseHandler
  /** Called before a tool of an MCP server runs. */
  onPreMcpToolCall?: PreMcpToolCallHandler
  /** Called after a tool has succeeded. */
  onPostToolUse?: PostToolUseHandler
  /** Called after a tool has failed. */
  onPostToolUseFailure?: PostToolUseFailureHandler
  /** Called when a prompt is submitted. */
  onUserPromptSubmitted?: UserPromptSubmittedHandler
  /** Called after the runtime has added its text to a prompt, and before it is stored. */
  onUserPromptTransformed?: UserPromptTransformedHandler
  /** Called when the session starts. */
  onSessionStart?: SessionStartHandler
  /** Called when the session ends. */
  onSessionEnd?: SessionEndHandler
  /** Called when an error occurs. */
  onErrorOccurred?: ErrorOccurredHandler
  /** Called when the main agent stops; it can keep the agent working. */
  onAgentStop?: AgentStopHandler
}

/** @internal The hook's output for `hooks.invoke`. */
export async function invokeHook(
  hooks: SessionHooks | undefined,
  type: string,
  input: unknown,
  sessionId: string,
): Promise<unknown> {
  // "preToolUse" is `onPreToolUse`.
  const name = `on${type.charAt(0).toUpperCase()}${type.slice(1)}`
  const hook = hooks && Object.hasOwn(hooks, name) ? hooks[name as keyof SessionHooks] : undefined
  if (!hook) return undefined
  try {
    return await (hook as Hook<unknown, unknown>)(toHookInput(input), { sessionId })
  } catch {
    return undefined
  }
}

function toHookInput(raw: unknown): unknown {
  const input = raw as Record<string, unknown> | null
  if (typeof input !== 'object' || input === null || typeof input.timestamp !== 'number') return raw
  const { cwd, stop_hook_active: stopHookActive, ...rest } = input
  const result: Record<string, unknown> = {
    ...rest,
    timestamp: new Date(input.timestamp),
    workingDirectory: cwd,
  }
  if (stopHookActive !== undefined) result.stopHookActive = stopHookActive
  return result
}
