import type { CompletionSpec, ModelCall, RetrySpec, TextPiece } from '../native/native'
import { abortable, onAbort, orAborted } from './abort'
import { callSite, placedAt } from './call-site'
import { SheepdogError, invalidOption, settle } from './error'
import { layersOf } from './error-layer'
import type { AgentErrorKind } from './harness/result'
import { native } from './native'
import { check, checkOptions, show } from './option'
import { conforming, isSchemaLike, schemaOf, type StructuredOf } from './schema'
import type { TokenUsage } from './usage'

export type { TokenUsage } from './usage'

/** A message in the shape of OpenAI's chat completions. */
export interface ChatMessage {
  role: 'system' | 'developer' | 'user' | 'assistant' | 'tool' | (string & {})
  content?: string | null | readonly Record<string, unknown>[]
  name?: string
  tool_calls?: readonly Record<string, unknown>[]
  tool_call_id?: string
  [field: string]: unknown
}

/** A tool in the shape of OpenAI's chat completions. */
export interface ChatTool {
  type: 'function' | (string & {})
  function?: { name: string; description?: string; parameters?: object; strict?: boolean | null }
  [field: string]: unknown
}

/** How often, and how long between. */
export interface RetryOptions {
  /**
   * Tries in all. Default: 1 + env SHEEPDOG_AI_TIMEOUT_RETRIES, else 1 + AGENTFIELD_AI_TIMEOUT_RETRIES, else 3; read at each
   * call, and a value that is no whole number >= 0 counts as absent.
   */
  attempts?: number
  /** The wait after the first failure, doubled with each; half of it is left to chance. Default 200. */
  baseDelayMs?: number
  /** The longest wait, also when a server asks for more by Retry-After. Default 30_000. */
  maxDelayMs?: number
}

/** A model call. Every `*TimeoutMs` takes any number: 0 and Infinity mean off, less than 0 has passed: nothing is asked. */
export interface CompleteOptions {
  /** Where `/chat/completions` is, for example `https://api.openai.com/v1`. */
  baseUrl: string
  /** Sent as a bearer token; never shown in an error. */
  apiKey?: string
  model: string
  messages: readonly ChatMessage[]
  tools?: readonly ChatTool[]
  /** "auto", "none", "required", or a tool by name in that API's shape. */
  toolChoice?: 'auto' | 'none' | 'required' | object
  temperature?: number
  /** Of the answer, sent as `max_tokens`; a server that wants another name gets it by `extraBody`. */
  maxTokens?: number
  seed?: number
  /** Further fields of the request's body; they win over the call's own, save `messages` and `stream`. */
  extraBody?: object
  /**
   * Is given the answer's text as it comes. An attempt that fails in the middle is made again, and its text begins anew:
   * `attempt` tells which one it is, from 1. What it throws ends the call and is the call's error.
   */
  onText?(delta: string, attempt: number): void
  /**
   * The answer must be JSON that fits this JSON Schema, or that of an object with `toJSONSchema()` or of a library's schema
   * that can say it: it comes as `structured`.
   */
  schema?: object
  /** One attempt, from the connection to the end of the answer; default 120_000. */
  timeoutMs?: number
  /** Silence between two pieces of the answer, the response's head being the first; default 60_000. */
  idleTimeoutMs?: number
  retry?: RetryOptions
  /** Further headers; they win over the call's own. */
  headers?: Record<string, string | undefined>
  /** Ends the call and closes its connection; one that is already aborted asks nothing. */
  signal?: AbortSignal
}

/** What the model answered. */
export interface Completion<Structured = unknown> {
  text: string
  /** What `schema` asked for, checked; absent when the model called tools instead. */
  structured?: Structured
  /** Arguments are parsed; those that are no JSON stay the text that they are. */
  toolCalls: { id: string; name: string; arguments: unknown }[]
  /** Absent when the server does not tell. `cachedInputTokens` are part of `inputTokens`. */
  usage?: TokenUsage
  /** The server's word: "stop", "length", "tool_calls", ... */
  finishReason: string
  /** Requests made. */
  attempts: number
}

/** What a failure is about. */
export type ModelErrorKind = AgentErrorKind | 'timeout' | 'aborted'

/** What to think of an error. */
export interface ErrorClassification {
  kind: ModelErrorKind
  /** Whether another try may help. */
  retryable: boolean
  /** The HTTP status, from 400 to 599. */
  status?: number
  /** What the server asked for. */
  retryAfterMs?: number
}

/** How `withRetry` repeats an operation. */
export interface RetryPolicy extends RetryOptions {
  /** Ends the waiting, and the promise at once with MODEL_ABORTED. */
  signal?: AbortSignal
  /** Whether to try again after this error; default `classify(error).retryable`. */
  retryable?(error: unknown): boolean
}

const retryChecks = { attempts: check.count, baseDelayMs: check.duration, maxDelayMs: check.duration }

const finite = (path: string, value: unknown): void => {
  if (!Number.isFinite(value)) throw invalidOption(path, `expected a number, got ${show(value)}`)
}

const completeChecks = {
  baseUrl: check.name,
  apiKey: check.string,
  model: check.name,
  messages: objects('message'),
  tools: objects('tool'),
  toolChoice: check.anyOf(
    '"auto", "none", "required" or an object',
    check.oneOf('auto', 'none', 'required'),
    check.object,
  ),
  temperature: finite,
  maxTokens: check.count,
  seed(path: string, value: unknown) {
    if (!Number.isSafeInteger(value)) throw invalidOption(path, `expected an integer, got ${show(value)}`)
  },
  extraBody: check.object,
  onText: check.function,
  schema(path: string, value: unknown) {
    if (!isSchemaLike(value)) check.object(path, value)
  },
  timeoutMs: check.timeout,
  idleTimeoutMs: check.timeout,
  retry: (path: string, value: unknown) => checkOptions(value, retryChecks, path),
  headers: check.record,
  signal: check.signal,
}

/**
 * One chat completion over HTTP (an OpenAI-compatible server), streamed inside. A timeout, a lost connection, a malformed
 * answer and the statuses 408, 409, 425, 429 and 5xx are asked again on a fresh connection; nothing else is.
 *
 * Rejects with MODEL_TIMED_OUT, MODEL_ABORTED, MODEL_FAILED (+ `kind`, `status`), MODEL_BAD_RESPONSE (+ `problems` when the
 * answer does not fit the schema) or MODEL_UNREACHABLE, all with `attempts`, or with INVALID_OPTION before any request.
 */
export async function complete<Schema extends object>(
  options: CompleteOptions & { schema: Schema },
): Promise<Completion<StructuredOf<Schema>>>
export async function complete(options: CompleteOptions): Promise<Completion>
export async function complete(options: CompleteOptions): Promise<Completion> {
  const spec = toSpec(options)
  const { signal } = options
  if (signal?.aborted) throw aborted(0, signal)
  const call = new native.ModelCall()
  const site = callSite()
  const answer = settle<string>(call.complete(spec), site)
  const told = options.onText && tell(call, options.onText)
  told?.catch(() => {})
  const text = await abortable(answer, signal, 'MODEL_ABORTED', () => call.abort()).catch(async (error) => {
    // The caller's own error comes first: it is why the call ended.
    await told
    throw error
  })
  await told
  const completion: Completion = JSON.parse(text)
  const { attempts, text: said } = completion
  const conformed = conforming(completion, options.schema, (message, problems) => {
    const facts = { attempts, kind: 'server', problems, text: said } as const
    return new SheepdogError('MODEL_BAD_RESPONSE', message, facts)
  })
  return placedAt(conformed, site)
}

/** Gives the pieces of the answer to the caller until there are no more; the call ends when the caller throws. */
async function tell(call: ModelCall, onText: NonNullable<CompleteOptions['onText']>): Promise<void> {
  try {
    for (;;) {
      const pieces = await settle<TextPiece[] | null>(call.nextText())
      if (!pieces) return
      for (const { text, attempt } of pieces) onText(text, attempt)
    }
  } catch (error) {
    call.abort()
    throw error
  }
}

/**
 * Runs an operation until it succeeds, fails for good, or has failed `attempts` times; then rejects with its last error, as
 * it was. `operation` is given the number of the attempt, from 1. A Retry-After in the error is honoured up to `maxDelayMs`.
 */
export async function withRetry<T>(
  operation: (attempt: number) => Promise<T>,
  policy?: RetryPolicy,
): Promise<T> {
  check.function('operation', operation)
  checkOptions(policy, { ...retryChecks, signal: check.signal, retryable: check.function })
  const { signal, retryable, ...options } = policy ?? {}
  const spec = toRetrySpec(options)
  const attempts = native.retryAttempts(spec)
  for (let attempt = 1; ; attempt++) {
    if (signal?.aborted) throw aborted(attempt - 1, signal)
    try {
      return await orAborted(operation(attempt), signal, () => aborted(attempt, signal))
    } catch (error) {
      if (signal?.aborted) throw error
      const { retryAfterMs, ...judged } = classify(error)
      if (attempt >= attempts || !(retryable ? retryable(error) : judged.retryable)) throw error
      const delay = native.retryDelay(spec, attempt, retryAfterMs)
      await wait(delay, signal)
      if (signal?.aborted) throw aborted(attempt, signal)
    }
  }
}

/** Tells what an error of any origin is about, and whether another try may help. Never throws. */
export function classify(error: unknown): ErrorClassification {
  const { kind, retryable, status, retryAfterMs } = native.classifyError(layersOf(error))
  return {
    kind,
    retryable,
    ...(status !== undefined && { status }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  }
}

function toSpec(options: CompleteOptions): CompletionSpec {
  if (options === undefined) throw invalidOption('options', 'expected an object, got undefined')
  checkOptions(options, completeChecks)
  const { baseUrl, apiKey, model, messages, tools, toolChoice, extraBody, schema, headers = {} } = options
  const { temperature, maxTokens, seed, timeoutMs, idleTimeoutMs } = options
  check.name('baseUrl', baseUrl)
  check.name('model', model)
  completeChecks.messages('messages', messages)
  if (messages.length === 0) throw invalidOption('messages', 'expected at least one message')
  return {
    baseUrl,
    apiKey: apiKey || undefined,
    model,
    messages: toJson('messages', messages),
    tools: tools && toJson('tools', tools),
    toolChoice: toolChoice && toJson('toolChoice', toolChoice),
    temperature,
    maxTokens,
    seed,
    extraBody: extraBody && toJson('extraBody', extraBody),
    schema: schema && toJson('schema', schemaOf(schema)),
    timeoutMs,
    idleTimeoutMs,
    retry: toRetrySpec(options.retry),
    headers: Object.entries(headers).flatMap(([name, value]) => {
      if (value === undefined) return []
      check.string(`headers.${name}`, value)
      return [{ name, value }]
    }),
    hasListener: options.onText !== undefined,
  }
}

// Read at each call, and here: in a worker thread process.env is the thread's own.
function toRetrySpec({ attempts, baseDelayMs, maxDelayMs }: RetryOptions = {}): RetrySpec {
  return {
    attempts,
    baseDelayMs,
    maxDelayMs,
    ownRetries: process.env.SHEEPDOG_AI_TIMEOUT_RETRIES,
    inheritedRetries: process.env.AGENTFIELD_AI_TIMEOUT_RETRIES,
  }
}

function toJson(path: string, value: unknown): string {
  try {
    // JSON that crosses has no halves of surrogate pairs.
    const text: string | undefined = JSON.stringify(value, (_, part) =>
      typeof part === 'string' ? (part as string & { toWellFormed(): string }).toWellFormed() : part,
    )
    if (text !== undefined) return text
  } catch (error) {
    throw invalidOption(path, `can't be sent as JSON: ${(error as Error)?.message}`)
  }
  throw invalidOption(path, "can't be sent as JSON")
}

function objects(what: string) {
  return (path: string, value: unknown) => {
    if (!Array.isArray(value)) throw invalidOption(path, `expected an array of ${what}s, got ${show(value)}`)
    value.forEach((item, index) => check.object(`${path}[${index}]`, item))
  }
}

function aborted(attempts: number, signal: AbortSignal | undefined): SheepdogError {
  const facts = { attempts, kind: 'aborted' as const }
  return new SheepdogError('MODEL_ABORTED', 'the model call was aborted by its signal', facts, signal?.reason)
}

/** Resolves after so long, or when the signal is aborted. */
function wait(delayMs: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    // Longer timers fire at once.
    const timer = setTimeout(done, Math.min(delayMs, 2 ** 31 - 1))
    const letGo = onAbort(signal, done)
    function done() {
      clearTimeout(timer)
      letGo()
      resolve()
    }
  })
}
