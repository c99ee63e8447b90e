// The caller's tools for an agent: a Model Context Protocol server on loopback, for one session, behind a bearer of its own.
//
// It needs five methods of that protocol over one way of transport (a POST answered with JSON), and it has no state. The
// protocol's own npm package brings ninety more along, to a package that has none; a crate would carry every call to the
// JavaScript thread and back, where its handler lives anyway.
import { randomBytes, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { toJsonSchema, toToolResult, type Tool, type ToolResultObject } from '../../copilot/tool'
import { native } from '../../native'

const maxRequestBytes = 64 << 20
/** Connections without the bearer that are open at one time; another one closes the oldest of them. */
const maxStrangers = 64
const versions = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05']

type Message = { id?: unknown; method?: unknown; params?: Record<string, unknown> }
type Content = { type: 'text'; text: string } | { type: 'image'; data: string; mimeType: string }

export class ToolServer {
  readonly token = randomBytes(32).toString('base64url')
  readonly #server: Server
  readonly #tools: Map<string, Tool>
  readonly #over = new AbortController()
  /** Calls that run. */
  readonly #calls = new Set<{ id: unknown; controller: AbortController }>()
  /** Connections that have not shown the bearer. Every process of the machine can make some; they must not use up the files of this one. */
  readonly #strangers = new Set<Socket>()
  sessionId = ''
  /** A call begins, or has ended: nobody waits for the agent meanwhile. */
  onCall: (begins: boolean) => void = () => {}

  static async start(tools: Tool[]): Promise<ToolServer> {
    const server = new ToolServer(tools)
    await new Promise<void>((resolve, reject) => {
      server.#server.once('error', reject)
      server.#server.listen(0, '127.0.0.1', resolve)
    })
    return server
  }

  private constructor(tools: Tool[]) {
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]))
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch(() => response.destroy())
    })
    this.#server.on('connection', (socket) => this.#onConnection(socket))
    // The session's process keeps the host alive, this does not.
    this.#server.unref()
  }

  /** As the agent is told of it. */
  get server() {
    const { port } = this.#server.address() as AddressInfo
    const headers = [{ name: 'Authorization', value: `Bearer ${this.token}` }]
    return { name: 'sheepdog', url: `http://127.0.0.1:${port}/mcp`, headers, args: [], env: [] }
  }

  /** Aborts the signals of the calls that run, because the turn that made them was cancelled. */
  cancelCalls(): void {
    for (const { controller } of this.#calls) controller.abort()
  }

  /** Calls that run are told by their signals. */
  async close(): Promise<void> {
    this.#over.abort()
    this.#server.closeAllConnections()
    await new Promise<void>((resolve) => this.#server.close(() => resolve()))
  }

  #onConnection(socket: Socket): void {
    this.#strangers.add(socket)
    socket.once('close', () => this.#strangers.delete(socket))
    const [oldest] = this.#strangers
    if (this.#strangers.size > maxStrangers) oldest?.destroy()
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const answer = (status: number, body?: unknown) => {
      response.writeHead(status, body === undefined ? {} : { 'content-type': 'application/json' })
      response.end(body === undefined ? undefined : JSON.stringify(body))
    }
    if (!this.#isAllowed(request)) {
      response.shouldKeepAlive = false
      return answer(401)
    }
    this.#strangers.delete(request.socket)
    // No stream from here to there, and no session to end.
    if (request.method !== 'POST') return answer(405)
    const gone = new AbortController()
    response.once('close', () => gone.abort())
    let message: Message | Message[]
    try {
      message = JSON.parse(await read(request)) as Message | Message[]
    } catch {
      return answer(400, { jsonrpc: '2.0', id: null, error: { code: -32700, message: 'Parse error' } })
    }
    const signal = AbortSignal.any([gone.signal, this.#over.signal])
    const all = Array.isArray(message) ? message : [message]
    for (const one of all)
      if (one?.method === 'notifications/cancelled') this.#onCancelled(one.params?.requestId)
    const replies = await Promise.all(
      all
        .filter((one) => one?.id !== undefined && one.method !== undefined)
        .map((one) => this.#reply(one, signal)),
    )
    if (replies.length === 0) return answer(202)
    answer(200, Array.isArray(message) ? replies : replies[0])
  }

  #onCancelled(id: unknown): void {
    if (id === undefined) return
    for (const call of this.#calls) if (call.id === id) call.controller.abort()
  }

  /** The bearer, and no page of a browser's. */
  #isAllowed(request: IncomingMessage): boolean {
    const given = Buffer.from(request.headers.authorization ?? '')
    const wanted = Buffer.from(`Bearer ${this.token}`)
    return (
      given.length === wanted.length && timingSafeEqual(given, wanted) && request.headers.origin === undefined
    )
  }

  async #reply({ id, method, ...rest }: Message, signal: AbortSignal): Promise<unknown> {
    const params = rest.params ?? {}
    const result = (result: unknown) => ({ jsonrpc: '2.0', id, result })
    const error = (code: number, message: string) => ({ jsonrpc: '2.0', id, error: { code, message } })
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
        return result({ tools: [...this.#tools.values()].map(toListed) })
      case 'tools/call': {
        const tool = this.#tools.get(params.name as string)
        if (!tool) return error(-32602, `Unknown tool: ${String(params.name)}`)
        const call = { id, controller: new AbortController() }
        this.#calls.add(call)
        const either = AbortSignal.any([signal, call.controller.signal])
        const ended = once(() => this.onCall(false))
        either.addEventListener('abort', ended, { once: true })
        this.onCall(true)
        try {
          return result(await this.#call(tool, params.arguments ?? {}, String(id), either))
        } finally {
          ended()
          this.#calls.delete(call)
        }
      }
      default:
        return error(-32601, 'Method not found')
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

/** The ways in which the arguments of a call break the schema of its tool. */
function problemsOf(tool: Tool, input: unknown): string[] {
  const schema = toJsonSchema(tool.parameters)
  return schema === undefined ? [] : native.schemaProblems(JSON.stringify(schema), JSON.stringify(input))
}

function once(act: () => void): () => void {
  let isDone = false
  return () => {
    if (!isDone) act()
    isDone = true
  }
}

function toListed(tool: Tool) {
  const inputSchema = toJsonSchema(tool.parameters) ?? { type: 'object', properties: {} }
  return { name: tool.name, description: tool.description ?? '', inputSchema }
}

function toCallResult(result: string | ToolResultObject) {
  if (typeof result === 'string') return { content: [{ type: 'text', text: result }], isError: false }
  const images = (result.binaryResultsForLlm ?? [])
    .filter(({ type }) => type === 'image')
    .map(({ data, mimeType }): Content => ({ type: 'image', data, mimeType }))
  const content: Content[] = [{ type: 'text', text: result.textResultForLlm }, ...images]
  return { content, isError: result.resultType !== 'success' }
}

async function read(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxRequestBytes) throw new Error('the request is too long')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}
