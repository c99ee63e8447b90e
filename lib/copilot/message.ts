// Messages to a session.
import type { CopilotTurnSpec } from '../../native/native'
import { invalidOption } from '../error'
import { check, checkOptions, show } from '../option'
import type { AttachmentExtensionContext } from './generated'
import { responseFormatOf } from './structured_output'

/** Sender of a message. */
export type MessageSource = 'user' | 'system' | `agent-${string}`

interface Position {
  line: number
  character: number
}

/** An attachment of a message. */
export type MessageAttachment =
  | {
      /** A file or a folder. */
      type: 'file' | 'directory'
      /** Path of the file or folder. */
      path: string
      /** Name to show instead of the path. */
      displayName?: string
    }
  | {
      type: 'selection'
      filePath: string
      displayName: string
      selection?: { start: Position; end: Position }
      text?: string
    }
  | { type: 'blob'; data: string; mimeType: string; displayName?: string }
  | ExtensionContextAttachment

/** Content of an extension's canvas. Needs runtime 1.0.89 or newer. */
export type ExtensionContextAttachment = AttachmentExtensionContext

/** A message to a session. */
export interface MessageOptions {
  /** Text of the message. */
  prompt: string
  /**
   * Sender of the message.
   *
   * @default the user
   */
  source?: MessageSource
  /**
   * Files, folders, selections and data that belong to the message.
   *
   * @default []
   */
  attachments?: MessageAttachment[]
  /**
   * `"enqueue"`: after the turns before it. `"immediate"`: into the turn that runs.
   *
   * @default "enqueue"
   */
  mode?: 'enqueue' | 'immediate'
  /**
   * Mode in which the agent works on the message.
   *
   * @default the session's present mode
   */
  agentMode?: 'interactive' | 'plan' | 'autopilot' | 'shell'
  /** HTTP headers for the model requests of this turn. */
  requestHeaders?: Record<string, string>
  /** Text that the history shows instead of the prompt. */
  displayPrompt?: string
  /**
   * JSON Schema of the answer, or a schema that can give its JSON Schema. Needs runtime 1.0.89 or
   * newer.
   */
  responseSchema?:
    | {
        /** Gives the JSON Schema. */
        toJSONSchema(): object
      }
    | Record<string, unknown>
}

/** Options of `sendAndWait`. */
export interface SendAndWaitOptions {
  /**
   * Longest wait, in milliseconds, from the call to the end of the turn. 0 and Infinity mean no limit.
   * The work goes on after it.
   *
   * @default 60_000
   * @throws SESSION_TIMED_OUT
   */
  timeoutMs?: number
  /**
   * Longest time without an event of the session, in milliseconds.
   *
   * @default no limit
   * @throws SESSION_IDLE
   */
  idleTimeoutMs?: number
  /**
   * Wait for detached tasks too (`session.rpc.tasks.list`).
   *
   * @default false
   */
  waitForTasks?: boolean
  /**
   * Ends the wait and stops the work when aborted.
   *
   * @throws SESSION_ABORTED
   */
  signal?: AbortSignal
}

/** W3C trace context. */
export interface TraceContext {
  /** Value of the header `traceparent`. */
  traceparent?: string
  /** Value of the header `tracestate`. */
  tracestate?: string
}
/** Gives the present trace context. */
export type TraceContextProvider = () => TraceContext | Promise<TraceContext>

/** @internal The caller's trace; a provider that throws has none. */
export async function traceOf(provider: TraceContextProvider | undefined): Promise<TraceContext> {
  try {
    return (await provider?.()) ?? {}
  } catch {
    return {}
  }
}

const messageOptions = {
  prompt: check.string,
  source: check.string,
  attachments: check.listOf(check.object),
  mode: check.oneOf('enqueue', 'immediate'),
  agentMode: check.string,
  requestHeaders: check.record,
  displayPrompt: check.string,
  responseSchema: check.object,
}

const turnOptions = {
  timeoutMs: check.timeout,
  idleTimeoutMs: check.timeout,
  waitForTasks: check.boolean,
  signal: check.signal,
}

/** @internal Checks the message, and says how it goes over the wire. */
export function messageParams(message: string | MessageOptions): Record<string, unknown> {
  const options = typeof message === 'string' ? { prompt: message } : message
  if (typeof options !== 'object' || options === null)
    throw invalidOption('message', `expected a string or an object with a prompt, got ${show(message)}`)
  checkOptions(options, messageOptions, 'message')
  const { responseSchema, ...rest } = options
  return { ...rest, responseFormat: responseSchema && responseFormatOf(responseSchema) }
}

/** @internal Checks the options of a wait for a turn. */
export function turnSpec(options: SendAndWaitOptions): Omit<CopilotTurnSpec, 'kind'> {
  checkOptions(options, turnOptions)
  const { timeoutMs, idleTimeoutMs, waitForTasks = false } = options
  return { timeoutMs, idleTimeoutMs, waitForTasks }
}
