import { toJson } from './json'
import type { CompletionSpec, ModelCall, RetrySpec, TextPiece } from '../native/native'
import { abortable, orAborted, waited } from './abort'
import { callSite, placedAt } from './call-site'
import { SheepdogError, invalidOption, settle } from './error'
import { layersOf } from './error-layer'
import type { AgentErrorKind } from './harness/result'
import { variables } from './host'
import { native } from './native'
import { check, checkOptions, optionsOf, type Crossing } from './option'
import { conforming, isSchemaLike, schemaOf, type StructuredOf } from './schema'
import type { TokenUsage } from './usage'

export type { TokenUsage } from './usage'

/** A message in the format of OpenAI's chat completions. */
export interface ChatMessage {
  /** Author of the message. */
  role: 'system' | 'developer' | 'user' | 'assistant' | 'tool' | (string & {})
  /** Text of the message, or its parts. */
  content?: string | null | readonly Record<string, unknown>[]
  /** Name of the author. */
  name?: string
  /** Tool calls of an assistant message. */
  tool_calls?: readonly Record<string, unknown>[]
  /** Id of the tool call that a message with role `"tool"` answers. */
  tool_call_id?: string
  [field: string]: unknown
}

/** A tool in the format of OpenAI's chat completions. */
export interface ChatTool {
  /** Type of the tool. */
  type: 'function' | (string & {})
  /** The function that the model may call. */
  function?: { name: string; description?: string; parameters?: object; strict?: boolean | null }
  [field: string]: unknown
}

/** How often a request is tried, and the pauses between the attempts. */
export interface RetryOptions {
  /**
   * Largest number of attempts, the first one included. The variables are read at each call; a value
   * that is not a whole number of at least 0 is ignored.
   *
   * @default 1 + the variable SHEEPDOG_AI_TIMEOUT_RETRIES, else 1 + AGENTFIELD_AI_TIMEOUT_RETRIES, else
   *   3
   */
  attempts?: number
  /**
   * Pause after the first failure, in milliseconds. It doubles with each failure, and half of it is
   * random.
   *
   * @default 200
   */
  baseDelayMs?: number
  /**
   * Longest pause that Sheepdog chooses, in milliseconds. A pause is never shorter than the server asks for by
   * `Retry-After`. When it asks for more than 5 minutes, and for more than this, there is no further attempt.
   *
   * @default 30_000
   */
  maxDelayMs?: number
}

/**
 * Options of a model call.
 *
 * Every `*TimeoutMs` is in milliseconds. 0 and Infinity switch the clock off. With a negative
 * value the deadline is over: no request is sent, and the promise rejects with MODEL_TIMED_OUT.
 */
export interface CompleteOptions {
  /** Address of the server without `/chat/completions`, for example `https://api.openai.com/v1`. */
  baseUrl: string
  /**
   * Key that is sent as a bearer token. It never appears in an error.
   *
   * @default no key
   */
  apiKey?: string
  /** Name of the model, as the server knows it. */
  model: string
  /** The conversation so far. */
  messages: readonly ChatMessage[]
  /**
   * Tools that the model may call. Calls are in `toolCalls`; this package does not run them.
   *
   * @default no tools
   */
  tools?: readonly ChatTool[]
  /**
   * Whether the model may (`"auto"`), must (`"required"`) or must not (`"none"`) call a tool, or a tool
   * by name in the format of the API.
   *
   * @default the server's choice
   */
  toolChoice?: 'auto' | 'none' | 'required' | object
  /**
   * Randomness of the answer.
   *
   * @default the server's choice
   */
  temperature?: number
  /**
   * Largest length of the answer in tokens, sent as `max_tokens`. For a server that expects another
   * name, use `extraBody`.
   *
   * @default the server's choice
   */
  maxTokens?: number
  /**
   * Seed for repeatable answers, for servers that support it.
   *
   * @default none
   */
  seed?: number
  /**
   * Further fields of the request body. They override the fields of this call, except `messages` and
   * `stream`.
   */
  extraBody?: object
  /**
   * Receives the text of the answer as it arrives. A failed attempt is repeated, and its text begins
   * again: `attempt` counts the attempts from 1. An error in this function ends the call and rejects
   * it.
   */
  onText?(delta: string, attempt: number): void
  /**
   * Schema that the answer must match: a JSON Schema, an object with `toJSONSchema()`, or a schema of a
   * library that can give its JSON Schema. The answer is then in `structured`. An answer that does not
   * match is asked for again.
   *
   * @throws MODEL_BAD_RESPONSE with `problems` and `text`.
   */
  schema?: object
  /**
   * Longest time of one attempt, from the connection to the end of the answer, in milliseconds.
   *
   * @default 120_000
   * @throws MODEL_TIMED_OUT
   */
  timeoutMs?: number
  /**
   * Longest silence between two pieces of the answer, in milliseconds. The head of the response is the
   * first piece.
   *
   * @default 60_000
   * @throws MODEL_TIMED_OUT
   */
  idleTimeoutMs?: number
  /** How often a failed request is repeated. */
  retry?: RetryOptions
  /** Further HTTP headers. They override those of this call. */
  headers?: Record<string, string | undefined>
  /**
   * Ends the call and closes its connection when aborted. If it is already aborted, no request is sent.
   *
   * @throws MODEL_ABORTED, with the signal's reason as `cause`.
   */
  signal?: AbortSignal
}

/** Answer of a model. */
export interface Completion<Structured = unknown> {
  /** Text of the answer. */
  text: string
  /** The answer as a value that matches `schema`; absent when the model called tools instead. */
  structured?: Structured
  /** Tool calls of the model. Arguments are parsed; arguments that are not JSON stay text. */
  toolCalls: {
    /** Id of the call, for `tool_call_id`. */
    id: string
    /** Name of the tool. */
    name: string
    /** Arguments of the call. */
    arguments: unknown
  }[]
  /**
   * Tokens of all attempts; absent when the server does not report them. `cachedInputTokens` are part
   * of `inputTokens`.
   */
  usage?: TokenUsage
  /** Reason of the end, in the server's words: `"stop"`, `"length"`, `"tool_calls"` and others. */
  finishReason: string
  /** Number of requests that were sent. */
  attempts: number
}

/** Reason of a failed model call. */
export type ModelErrorKind = AgentErrorKind | 'timeout' | 'aborted'

/** Classification of an error. */
export interface ErrorClassification {
  /** Reason of the failure. */
  kind: ModelErrorKind
  /** True when another attempt may succeed. */
  retryable: boolean
  /** HTTP status, from 400 to 599. */
  status?: number
  /** Pause that the server asked for, in milliseconds. */
  retryAfterMs?: number
}

/** Options of `withRetry`. */
export interface RetryPolicy extends RetryOptions {
  /** Ends the wait when aborted; the promise rejects at once with MODEL_ABORTED. */
  signal?: AbortSignal
  /**
   * Decides whether to try again after this error.
   *
   * @default classify(error).retryable
   */
  retryable?(error: unknown): boolean
}

const retryChecks = { attempts: check.count, baseDelayMs: check.duration, maxDelayMs: check.duration }

const completeChecks = optionsOf('complete()', {
  baseUrl: check.name,
  apiKey: check.string,
  model: check.name,
  messages: check.listOf(check.object, 'an array of messages'),
  tools: check.listOf(check.object, 'an array of tools'),
  toolChoice: check.anyOf(
    '"auto", "none", "required" or an object',
    check.oneOf('auto', 'none', 'required'),
    check.object,
  ),
  temperature: check.expected('a number', Number.isFinite),
  maxTokens: check.count,
  seed: check.expected('an integer', Number.isSafeInteger),
  extraBody: check.object,
  onText: check.function,
  schema(path: string, value: unknown) {
    if (!isSchemaLike(value)) check.object(path, value)
  },
  timeoutMs: check.timeout,
  idleTimeoutMs: check.timeout,
  retry: check.fields(retryChecks),
  headers: check.record,
  signal: check.signal,
})

/** Sends a chat completion whose answer matches a schema; see below. The answer is in `structured`. */
export async function complete<Schema extends object>(
  options: CompleteOptions & { schema: Schema },
): Promise<Completion<StructuredOf<Schema>>>
/**
 * Sends one chat completion to an OpenAI-compatible server over HTTP. The answer is streamed
 * internally.
 *
 * A timeout, a lost connection, a malformed answer and the statuses 408, 409, 425, 429 and 5xx are
 * tried again on a fresh connection. Other failures are not.
 *
 * @throws MODEL_TIMED_OUT, MODEL_ABORTED, MODEL_FAILED (with `kind` and `status`), MODEL_BAD_RESPONSE
 *   or MODEL_UNREACHABLE, all with `attempts`; INVALID_OPTION before any request.
 *
 * @example
 * const { text } = await complete({
 *   baseUrl: 'https://api.openai.com/v1',
 *   apiKey: process.env.OPENAI_API_KEY,
 *   model: 'gpt-5-mini',
 *   messages: [{ role: 'user', content: 'Name three sheepdogs.' }],
 * })
 */
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
 * Calls a function until it succeeds, fails with an error that is not retryable, or has failed
 * `attempts` times. Then it rejects with the last error, unchanged.
 *
 * @param operation Your function. It receives the number of the attempt, from 1. The pause is never shorter than a
 *   `Retry-After` in its error. After one of more than 5 minutes there is no further attempt.
 * @throws MODEL_ABORTED when `policy.signal` is aborted.
 *
 * @example
 * const body = await withRetry(async () => (await fetch(url)).json(), { attempts: 5 })
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
      if (delay === null) throw error
      await waited(delay, signal)
      if (signal?.aborted) throw aborted(attempt, signal)
    }
  }
}

/**
 * Classifies an error of any origin: its reason, and whether another attempt may succeed. Never throws.
 */
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
  checkOptions(options, completeChecks, '', { prompt: "use `messages: [{ role: 'user', content: prompt }]`" })
  const { apiKey, messages, tools, toolChoice, extraBody, schema, headers = {}, retry, ...others } = options
  const { onText, signal: _, ...rest } = others
  rest satisfies Crossing<typeof rest, CompletionSpec>
  check.name('baseUrl', rest.baseUrl)
  check.name('model', rest.model)
  completeChecks.messages('messages', messages)
  if (messages.length === 0) throw invalidOption('messages', 'expected at least one message')
  return {
    ...rest,
    apiKey: apiKey || undefined,
    messages: toJson('messages', messages),
    tools: tools && toJson('tools', tools),
    toolChoice: toolChoice && toJson('toolChoice', toolChoice),
    extraBody: extraBody && toJson('extraBody', extraBody),
    schema: schema && toJson('schema', schemaOf(schema)),
    retry: toRetrySpec(retry),
    headers: Object.entries(headers).flatMap(([name, value]) => {
      if (value === undefined) return []
      check.string(`headers.${name}`, value)
      return [{ name, value }]
    }),
    hasListener: onText !== undefined,
  }
}

// The environment is read at each call.
function toRetrySpec(options: RetryOptions = {}): RetrySpec {
  return { ...options, inherited: variables() }
}

function aborted(attempts: number, signal: AbortSignal | undefined): SheepdogError {
  const facts = { attempts, kind: 'aborted' as const }
  return new SheepdogError<'MODEL_ABORTED'>(
    'MODEL_ABORTED',
    'the model call was aborted by its signal',
    facts,
    signal?.reason,
  )
}
