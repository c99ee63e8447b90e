// What is sent to a session.
import type { AttachmentExtensionContext } from './generated'

/** Who a message is from. */
export type MessageSource = 'user' | 'system' | `agent-${string}`

interface Position {
  line: number
  character: number
}

export type MessageAttachment =
  | { type: 'file' | 'directory'; path: string; displayName?: string }
  | {
      type: 'selection'
      filePath: string
      displayName: string
      selection?: { start: Position; end: Position }
      text?: string
    }
  | { type: 'blob'; data: string; mimeType: string; displayName?: string }
  | ExtensionContextAttachment

/** What an extension's canvas shows; runtimes since 1.0.89. */
export type ExtensionContextAttachment = AttachmentExtensionContext

export interface MessageOptions {
  prompt: string
  source?: MessageSource
  attachments?: MessageAttachment[]
  /** "enqueue" (default): after the turns before it. "immediate": into the turn that runs. */
  mode?: 'enqueue' | 'immediate'
  agentMode?: 'interactive' | 'plan' | 'autopilot' | 'shell'
  requestHeaders?: Record<string, string>
  /** Shown in the history instead of the prompt. */
  displayPrompt?: string
  /** The shape of the answer: a JSON Schema, or a schema that can say itself as one; runtimes since 1.0.89. */
  responseSchema?: { toJSONSchema(): object } | Record<string, unknown>
}

/** How long, and for what, `sendAndWait` waits. */
export interface SendAndWaitOptions {
  /** The whole wait, the reply to the message included; default 60_000. 0 and Infinity: off. SESSION_TIMED_OUT. */
  timeoutMs?: number
  /** No event of the session for so long; default off. SESSION_IDLE. */
  idleTimeoutMs?: number
  /** Wait for detached tasks too (`session.rpc.tasks.list`); default false. */
  waitForTasks?: boolean
  /** Ends the wait with SESSION_ABORTED and stops the work. */
  signal?: AbortSignal
}

export interface TraceContext {
  traceparent?: string
  tracestate?: string
}
export type TraceContextProvider = () => TraceContext | Promise<TraceContext>

/** The caller's trace; a provider that throws has none. */
export async function traceOf(provider: TraceContextProvider | undefined): Promise<TraceContext> {
  try {
    return (await provider?.()) ?? {}
  } catch {
    return {}
  }
}
