// The caller's tools as the Model Context Protocol has them, whatever carries its messages: over HTTP for the agent of a session
// (tool_server.ts), over stdio for `sheepdog mcp`.
//
// It needs five methods of that protocol, and it has no state. The protocol's own npm package brings ninety more along, to a package
// that has none; a crate would carry every call to the JavaScript thread and back, where its handler lives anyway.
import { toJsonSchema, type Tool } from '../../tool/definition'
import { toToolResult, type ToolResultObject } from '../../tool/result'
import { finite, toJson } from '../../json'
import { native } from '../../native'
import { isObject, show } from '../../option'

const versions = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05']

type Message = { id?: unknown; method?: string; params?: Record<string, unknown> }
type Content = { type: 'text'; text: string } | { type: 'image'; data: string; mimeType: string }

/** The one of two that a reply has. */
type Outcome = { result: unknown } | { error: { code: number; message: string } }

const failure = (code: number, message: string): Outcome => ({ error: { code, message } })

/** Whether each member has the type that JSON-RPC gives it. What a peer sends has any. */
function isMessage(message: unknown): message is Message {
  if (!isObject(message)) return false
  const { id, method, params } = message
  return (
    (id === undefined || idOf(message) !== null) &&
    (typeof method === 'string' || (method === undefined && ('result' in message || 'error' in message))) &&
    (params === undefined || params === null || isObject(params))
  )
}

/** The id that an answer can have; null for one that is no id. */
function idOf(message: unknown): string | number | null {
  const id = isObject(message) ? message.id : null
  return typeof id === 'string' || typeof id === 'number' ? id : null
}

/** A message, and the ids that it names: as JSON, because a number of JavaScript is not every number that a peer writes. */
interface Received {
  message: unknown
  id: string
  cancels: string
}

const token = /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d[\d.eE+-]*/g

/** The messages of a JSON text, and whether they are a list: versions before 2025-06-18 allow that. */
function received(text: string): { all: Received[]; isList: boolean } {
  const parsed = JSON.parse(text) as unknown
  const isList = Array.isArray(parsed) && parsed.length > 0
  const list = (value: unknown) => (isList ? (value as unknown[]) : [value])
  let written: unknown[] | undefined
  /** The same messages, in which each number is the text that was written. */
  const exact = () =>
    (written ??= list(JSON.parse(text.replace(token, (word) => (word.startsWith('"') ? word : `"${word}"`)))))
  const isExact = (id: number) =>
    !isList && Number.isSafeInteger(id) && new RegExp(`:\\s*${id}\\s*[,}]`).test(text)
  const idText = (id: unknown, at: (message: Message) => unknown, index: number) =>
    typeof id !== 'number' || isExact(id) ? toJson('id', id ?? null) : String(at(exact()[index] as Message))
  const all = list(parsed).map((message, index) => {
    const params = isObject(message) && isObject(message.params) ? message.params : {}
    return {
      message,
      id: idText(idOf(message), ({ id }) => id, index),
      cancels: idText(params.requestId, ({ params }) => params?.requestId, index),
    }
  })
  return { all, isList }
}

export class ToolProtocol {
  /** The reply to a text that is not JSON. */
  static readonly unreadable = replyTo('null', failure(-32700, 'Parse error'))
  readonly #tools: Map<string, Tool>
  /** Calls that run. */
  readonly #calls = new Set<{ id: string; controller: AbortController }>()
  sessionId = ''
  /** Whether somebody has asked which tools there are, and what is done the first time. */
  isListed = false
  onListed: () => void = () => {}
  /** A call begins, or has ended: nobody waits for the agent meanwhile. */
  onCall: (begins: boolean) => void = () => {}

  constructor(tools: readonly Tool[]) {
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]))
  }

  /** Aborts the signals of the calls that run, because the turn that made them was cancelled. */
  cancelCalls(): void {
    for (const { controller } of this.#calls) controller.abort()
  }

  /**
   * Takes a JSON text: a message, or a list of them. Resolves with the text of the reply; a notification has none.
   *
   * @throws SyntaxError when the text is not JSON.
   */
  async take(text: string, signal: AbortSignal): Promise<string | undefined> {
    const { all, isList } = received(text)
    const replies = (await Promise.all(all.map((one) => this.#answer(one, signal)))).filter(
      (reply) => reply !== undefined,
    )
    return isList && replies.length > 0 ? `[${replies.join(',')}]` : replies[0]
  }

  async #answer({ message, id, cancels }: Received, signal: AbortSignal): Promise<string | undefined> {
    const reply = (outcome: Outcome) => replyTo(id, outcome)
    if (!isMessage(message)) return reply(failure(-32600, 'Invalid Request'))
    if (message.method === 'notifications/cancelled') this.#onCancelled(cancels)
    if (message.id === undefined || message.method === undefined) return undefined
    return reply(await this.#outcome(message, id, signal))
  }

  #onCancelled(id: string): void {
    for (const call of this.#calls) if (call.id === id) call.controller.abort()
  }

  async #outcome({ method, ...rest }: Message, id: string, signal: AbortSignal): Promise<Outcome> {
    const params = rest.params ?? {}
    const result = (result: unknown) => ({ result })
    switch (method) {
      case 'initialize': {
        const asked = params.protocolVersion as string
        return result({
          protocolVersion: versions.includes(asked) ? asked : versions[0],
          capabilities: { tools: {} },
          serverInfo: { name: 'sheepdog', version: '1' },
        })
      }
      case 'ping':
        return result({})
      case 'tools/list':
        if (!this.isListed) this.onListed()
        this.isListed = true
        return result({ tools: [...this.#tools.values()].map(toListed) })
      case 'tools/call': {
        const tool = this.#tools.get(params.name as string)
        if (!tool) return failure(-32602, `Unknown tool: ${show(params.name)}`)
        const callId = typeof rest.id === 'string' ? rest.id : id
        const call = { id, controller: new AbortController() }
        this.#calls.add(call)
        const either = AbortSignal.any([signal, call.controller.signal])
        const ended = () => {
          if (this.#calls.delete(call)) this.onCall(false)
        }
        either.addEventListener('abort', ended, { once: true })
        this.onCall(true)
        try {
          return result(await this.#call(tool, params.arguments ?? {}, callId, either))
        } finally {
          ended()
        }
      }
      default:
        return failure(-32601, 'Method not found')
    }
  }

  async #call(tool: Tool, input: unknown, toolCallId: string, signal: AbortSignal) {
    try {
      const problems = problemsOf(tool, input)
      if (problems.length > 0) throw new Error(`Invalid arguments for ${tool.name}: ${problems.join('; ')}`)
      const invocation = {
        sessionId: this.sessionId,
        toolCallId,
        toolName: tool.name,
        arguments: input,
        signal,
      }
      return toCallResult(toToolResult(await tool.handler!(input, invocation)))
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error)
      return { content: [{ type: 'text', text }], isError: true }
    }
  }
}

/** The text of a reply. `id`: as JSON. */
function replyTo(id: string, outcome: Outcome): string {
  return `{"jsonrpc":"2.0","id":${id},${toJson('message', outcome).slice(1)}`
}

/** The ways in which the arguments of a call break the schema of its tool. */
function problemsOf(tool: Tool, input: unknown): string[] {
  const schema = toJsonSchema(tool.parameters)
  return schema === undefined
    ? []
    : native.schemaProblems(toJson('parameters', schema), toJson('arguments', input, finite))
}

function toListed(tool: Tool) {
  // The protocol wants the type of the arguments to be named.
  const inputSchema = {
    type: 'object',
    properties: {},
    ...(toJsonSchema(tool.parameters) as object | undefined),
  }
  const annotations = tool.readOnly ? { readOnlyHint: true } : undefined
  return { name: tool.name, description: tool.description ?? '', inputSchema, annotations }
}

function toCallResult(result: string | ToolResultObject) {
  if (typeof result === 'string') return { content: [{ type: 'text', text: result }], isError: false }
  const images = (result.binaryResultsForLlm ?? [])
    .filter(({ type }) => type === 'image')
    .map(({ data, mimeType }): Content => ({ type: 'image', data, mimeType }))
  const content: Content[] = [{ type: 'text', text: result.textResultForLlm }, ...images]
  return { content, isError: result.resultType !== 'success' }
}
