// A handler in JavaScript: what it is given, what it may answer, and how its errors become messages.
import { isValue, toJson } from '../json'
import { inspect, types } from 'node:util'
import { settle } from '../error'
import { folderName, home, stackOf } from '../host'
import type { NativeInvocation } from '../../native/native'
import { show } from '../option'
import { harmless } from '../plain-text'

/** Writes lines to stderr, with secrets removed. */
export interface RuntimeLogger {
  /** Writes a line. */
  log(...values: unknown[]): void
  /** Writes a warning. */
  warn(...values: unknown[]): void
  /** Writes an error. */
  error(...values: unknown[]): void
  /** Writes a line for debugging. */
  debug(...values: unknown[]): void
}

/** A prompt for a handler. */
export interface AgentInvocation {
  /** Instructions from the client. */
  systemPrompt: string
  /** The prompt. */
  userPrompt: string
  /** Format of the answer as the client gave it: `{ type: "json_schema", schema: {...} }`. */
  outputFormat?: unknown
  /** Model that the client asks for. */
  model: string
  /** Environment variables from the client. */
  env?: Record<string, string>
  /** Secrets from the client. They are removed from everything that the runtime sends. */
  secrets: string[]
  /** Aborted when the client cancels, ends the session or is gone, and after `sendErrorMessage`. */
  signal: AbortSignal
  /** Log of this request. */
  logger: RuntimeLogger
}

/** Sends messages to the client while a handler works. */
export interface AgentSender {
  /**
   * Sends text to the client. The promise waits while the client reads more slowly than the handler
   * sends.
   */
  sendAssistantMessage(textBlocks: string[]): Promise<void>
  /** Ends the request with an error, whatever `run` does later. */
  sendErrorMessage(error: string, metadata?: Record<string, unknown>): Promise<void>
}

/** Answer of a handler: a text, or a JSON object. */
export type AgentResult =
  | { type: 'text'; text: string; metadata?: Record<string, unknown> }
  | {
      type: 'structured_output'
      structuredOutput: Record<string, unknown>
      metadata?: Record<string, unknown>
    }

/** Answers prompts; several may run at once. An error is sent to the client without its stack. */
export interface AgentHandler {
  /** Answers one prompt. */
  run(invocation: AgentInvocation, sender: AgentSender): Promise<AgentResult>
}

/** @internal Has the handler answer; never throws, whatever the handler does. */
export async function invoke(handler: AgentHandler, invocation: NativeInvocation): Promise<void> {
  const controller = new AbortController()
  void settle<boolean>(invocation.stopped()).then((stopped) => {
    if (stopped) controller.abort()
  })
  const speech = new Speech()
  try {
    const { requestId, sourceId, env, outputFormat, ...request } = JSON.parse(invocation.request)
    const result = await handler.run(
      {
        ...request,
        env: env ?? undefined,
        outputFormat: outputFormat ?? undefined,
        signal: controller.signal,
        logger: createLogger(onOneLine(sourceId ?? requestId), (text) => invocation.redact(text)),
      },
      {
        sendAssistantMessage: (textBlocks) =>
          speech.say(() => {
            if (!Array.isArray(textBlocks)) {
              throw new TypeError(
                `sendAssistantMessage: expected an array of strings, got ${show(textBlocks)}`,
              )
            }
            return settle(invocation.sendAssistantMessage(textBlocks.map(String)))
          }),
        sendErrorMessage: (error, metadata) =>
          speech.say(() =>
            settle(invocation.sendErrorMessage(withoutPaths(String(error)), toMetadata(metadata))),
          ),
      },
    )
    await speech.said
    answer(invocation, result)
  } catch (error) {
    await speech.said
    fail(invocation, error)
  }
}

/** Messages go out in the order in which they were given, all of them before the answer, awaited or not. */
class Speech {
  /** Resolves when all is said. */
  said: Promise<void> = Promise.resolve()

  say(send: () => Promise<unknown>): Promise<void> {
    const sent = this.said.then(async () => {
      await send()
    })
    // A failure is for who awaits it: nobody has to.
    this.said = sent.catch(() => {})
    return sent
  }
}

/** A value that a handler throws may itself throw when it is read. */
function fail(invocation: NativeInvocation, error: unknown): void {
  try {
    invocation.fail(errorText(error), errorMetadata(error))
  } catch {
    invocation.fail('the handler threw a value that cannot be read', {})
  }
}

function answer(invocation: NativeInvocation, result: AgentResult): void {
  if (result?.type === 'text' && typeof result.text === 'string') {
    invocation.answerText(result.text, toMetadata(result.metadata))
    return
  }
  if (result?.type === 'structured_output') {
    const { structuredOutput } = result
    const structured = isValue(structuredOutput) ? toJson('structuredOutput', structuredOutput) : 'null'
    if (structured !== 'null') {
      invocation.answerStructured(structured, toMetadata(result.metadata))
      return
    }
  }
  invocation.fail('the handler returned neither a text nor a structured output', {})
}

/** A client's own words for its request: no line of the log begins in them. */
function onOneLine(name: string): string {
  return name.slice(0, 128).replace(/[\p{Cc}\u2028\u2029]/gu, '?')
}

/** As deep as util.inspect looks by itself. */
const LOGGED_DEPTH = 2

/**
 * A copy whose texts are redacted, as deep as it is logged. Before util.inspect, which writes a secret with quotes or line feeds in
 * another form than the redaction knows.
 */
function withRedactedTexts(value: unknown, redact: (text: string) => string, depth = 0): unknown {
  if (typeof value === 'string') return redact(value)
  if (typeof value !== 'object' || value === null || depth > LOGGED_DEPTH || types.isProxy(value))
    return value
  const inner = (part: unknown) => withRedactedTexts(part, redact, depth + 1)
  if (Array.isArray(value)) return value.map(inner)
  if (value instanceof Map) return new Map([...value].map(([key, part]) => [inner(key), inner(part)]))
  if (value instanceof Set) return new Set([...value].map(inner))
  if (value instanceof Error) return redact(stackOf(value) ?? String(value))
  // Objects with a text form of their own are not copied: it would be lost.
  if (Object.prototype.toString.call(value) !== '[object Object]' || inspect.custom in value) return value
  const copy = Object.create(Object.getPrototypeOf(value)) as object
  for (const key of Reflect.ownKeys(value)) {
    const property = Object.getOwnPropertyDescriptor(value, key)!
    if ('value' in property) property.value = inner(property.value)
    Object.defineProperty(copy, typeof key === 'string' ? redact(key) : key, property)
  }
  return copy
}

function createLogger(name: string, redact: (text: string) => string): RuntimeLogger {
  const write =
    (level: string) =>
    (...values: unknown[]) => {
      const words = values.map((value) => {
        if (typeof value === 'string') return value
        return value instanceof Error
          ? (stackOf(value) ?? String(value))
          : inspect(withRedactedTexts(value, redact), { breakLength: Infinity, depth: LOGGED_DEPTH })
      })
      // A prompt of a client must not move the cursor of who runs the server.
      process.stderr.write(harmless(`[${name}] ${level}${redact(words.join(' '))}\n`))
    }
  return { log: write(''), warn: write('warning: '), error: write('error: '), debug: write('debug: ') }
}

/** JSON's idea of an object: what can't be said in JSON is left out. */
function toMetadata(value: unknown): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return {}
  return limited(value, 0) as Record<string, unknown>
}

function errorText(error: unknown): string {
  if (error instanceof Error) return withoutPaths(error.message)
  return withoutPaths(typeof error === 'string' ? error : 'the handler threw a value that is not an error')
}

/** Removes paths: clients must not learn where this server's own files are. */
function withoutPaths(text: string): string {
  const lines = text.split('\n').filter((line) => !/^\s+at /.test(line))
  let out = lines.join('\n')
  for (const directory of [folderName(), home()]) {
    if (directory && directory.length > 1) out = out.replaceAll(directory, '.')
  }
  return out.replace(/file:\/\/\/\S+/g, 'a file')
}

/** Own properties that tell of this server. */
const hidden = new Set(['stack', 'path', 'dest', 'message', 'metadata', 'cause', 'name'])

/** @internal Facts of an error that a client gets beside its message. */
export function errorMetadata(error: unknown): Record<string, unknown> {
  if (!(error instanceof Error)) {
    if (typeof error === 'object' && error !== null) {
      return { error_type: 'object', error_details: limited(error, 0) }
    }
    return { error_type: typeof error }
  }
  const own: Record<string, unknown> = { ...(error as { metadata?: object }).metadata }
  const details = Object.fromEntries(Object.entries(error).filter(([name]) => !hidden.has(name)))
  return limited(
    {
      error_name: error.name,
      ...(error.cause === undefined ? {} : { cause: errorText(error.cause) }),
      ...own,
      ...(Object.keys(details).length === 0 ? {} : { error_details: details }),
    },
    0,
  ) as Record<string, unknown>
}

const maxDepth = 4
const maxItems = 20
const maxText = 4000

/** Errors carry whole responses sometimes: what goes to the client is bounded. */
function limited(value: unknown, depth: number): unknown {
  if (typeof value === 'string') {
    const text = withoutPaths(value)
    return text.length <= maxText
      ? text
      : `${text.slice(0, maxText)}... [truncated ${text.length - maxText} chars]`
  }
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value)
  if (typeof value === 'boolean' || value === null) return value
  if (typeof value === 'bigint') return String(value)
  if (typeof value !== 'object') return undefined
  if (depth >= maxDepth) return '[max depth reached]'
  if (Array.isArray(value)) return value.slice(0, maxItems).map((item) => limited(item, depth + 1) ?? null)
  if (value instanceof Error) return errorText(value)
  const fields = Object.entries(value).filter(([name]) => name !== 'stack')
  return Object.fromEntries(
    fields
      .slice(0, maxItems)
      .map(([name, field]) => [name, limited(field, depth + 1)])
      .filter(([, field]) => field !== undefined),
  )
}
