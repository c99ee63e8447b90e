// Hooks: the program's word at points of a session's life. A hook that throws counts as one that said nothing.
import type { ToolResultObject } from './tool'

export interface BaseHookInput {
  sessionId: string
  timestamp: Date
  workingDirectory: string
}

type Hook<Input, Output> = (
  input: Input,
  invocation: { sessionId: string },
) => Promise<Output | void> | Output | void

export interface PreToolUseHookInput extends BaseHookInput {
  toolName: string
  toolArgs: unknown
}
export interface PreToolUseHookOutput {
  permissionDecision?: 'allow' | 'deny' | 'ask'
  permissionDecisionReason?: string
  modifiedArgs?: unknown
  additionalContext?: string
  suppressOutput?: boolean
}
export type PreToolUseHandler = Hook<PreToolUseHookInput, PreToolUseHookOutput>

export interface PreMcpToolCallHookInput extends BaseHookInput {
  toolCallId?: string
  serverName: string
  toolName: string
  arguments: unknown
  _meta?: Record<string, unknown>
}
export interface PreMcpToolCallHookOutput {
  metaToUse?: Record<string, unknown> | null
}
export type PreMcpToolCallHandler = Hook<PreMcpToolCallHookInput, PreMcpToolCallHookOutput>

export interface PostToolUseHookInput extends BaseHookInput {
  toolName: string
  toolArgs: unknown
  toolResult: ToolResultObject
}
export interface PostToolUseHookOutput {
  modifiedResult?: ToolResultObject
  additionalContext?: string
  suppressOutput?: boolean
}
export type PostToolUseHandler = Hook<PostToolUseHookInput, PostToolUseHookOutput>

export interface PostToolUseFailureHookInput extends BaseHookInput {
  toolName: string
  toolArgs: unknown
  error: string
}
export interface PostToolUseFailureHookOutput {
  additionalContext?: string
}
export type PostToolUseFailureHandler = Hook<PostToolUseFailureHookInput, PostToolUseFailureHookOutput>

export interface UserPromptSubmittedHookInput extends BaseHookInput {
  prompt: string
}
export interface UserPromptSubmittedHookOutput {
  modifiedPrompt?: string
  additionalContext?: string
  suppressOutput?: boolean
}
export type UserPromptSubmittedHandler = Hook<UserPromptSubmittedHookInput, UserPromptSubmittedHookOutput>

export interface UserPromptTransformedHookInput extends BaseHookInput {
  prompt: string
  transformedPrompt: string
}
export interface UserPromptTransformedHookOutput {
  modifiedTransformedPrompt?: string
}
export type UserPromptTransformedHandler = Hook<
  UserPromptTransformedHookInput,
  UserPromptTransformedHookOutput
>

export interface SessionStartHookInput extends BaseHookInput {
  source: 'startup' | 'resume' | 'new'
  initialPrompt?: string
}
export interface SessionStartHookOutput {
  additionalContext?: string
  modifiedConfig?: Record<string, unknown>
}
export type SessionStartHandler = Hook<SessionStartHookInput, SessionStartHookOutput>

export interface SessionEndHookInput extends BaseHookInput {
  reason: 'complete' | 'error' | 'abort' | 'timeout' | 'user_exit'
  finalMessage?: string
  error?: string
}
export interface SessionEndHookOutput {
  suppressOutput?: boolean
  cleanupActions?: string[]
  sessionSummary?: string
}
export type SessionEndHandler = Hook<SessionEndHookInput, SessionEndHookOutput>

export interface ErrorOccurredHookInput extends BaseHookInput {
  error: string
  errorContext: 'model_call' | 'tool_execution' | 'system' | 'user_input'
  recoverable: boolean
}
export interface ErrorOccurredHookOutput {
  suppressOutput?: boolean
  errorHandling?: 'retry' | 'skip' | 'abort'
  retryCount?: number
  userNotification?: string
}
export type ErrorOccurredHandler = Hook<ErrorOccurredHookInput, ErrorOccurredHookOutput>

export interface AgentStopHookInput extends BaseHookInput {
  stopReason?: string
  transcriptPath?: string
  stopHookActive?: boolean
}
export interface AgentStopHookOutput {
  decision?: 'block'
  reason?: string
}
export type AgentStopHandler = Hook<AgentStopHookInput, AgentStopHookOutput>

export interface SessionHooks {
  onPreToolUse?: PreToolUseHandler
  onPreMcpToolCall?: PreMcpToolCallHandler
  onPostToolUse?: PostToolUseHandler
  onPostToolUseFailure?: PostToolUseFailureHandler
  onUserPromptSubmitted?: UserPromptSubmittedHandler
  onUserPromptTransformed?: UserPromptTransformedHandler
  onSessionStart?: SessionStartHandler
  onSessionEnd?: SessionEndHandler
  onErrorOccurred?: ErrorOccurredHandler
  onAgentStop?: AgentStopHandler
}

/** The hook's output for `hooks.invoke`. */
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
