// The caller's tools for an agent: a Model Context Protocol server on loopback, for one session, behind a bearer of its own. It has
// one way of transport: a POST answered with JSON.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { boundStrangers, listen } from '../../strangers'
import type { Tool } from '../../tool/definition'
import { ToolProtocol } from './tool_protocol'

// Loaded when there is a session with tools: the two take a tenth of the time that it takes to load the package.
const http = () => process.getBuiltinModule('node:http')
const crypto = () => process.getBuiltinModule('node:crypto')
const maxRequestBytes = 64 << 20

export class ToolServer extends ToolProtocol {
  readonly token = crypto().randomBytes(32).toString('base64url')
  readonly #server: Server
  readonly #over = new AbortController()
  readonly #onKnown: (socket: Socket) => void

  static async start(tools: readonly Tool[]): Promise<ToolServer> {
    const server = new ToolServer(tools)
    await listen(server.#server, 0, '127.0.0.1')
    return server
  }

  private constructor(tools: readonly Tool[]) {
    super(tools)
    this.#server = http().createServer((request, response) => {
      this.#serve(request, response).catch(() => response.destroy())
    })
    this.#onKnown = boundStrangers(this.#server)
    // An agent may call at any time: a connection that it keeps must not be closed under its request.
    this.#server.keepAliveTimeout = 0
    // The session's process keeps the host alive, this does not.
    this.#server.unref()
  }

  /** As the agent is told of it. */
  get server() {
    const { port } = this.#server.address() as AddressInfo
    const headers = [{ name: 'Authorization', value: `Bearer ${this.token}` }]
    return { name: 'sheepdog', url: `http://127.0.0.1:${port}/mcp`, headers, args: [], env: [] }
  }

  /** Calls that run are told by their signals. */
  async close(): Promise<void> {
    this.#over.abort()
    this.#server.closeAllConnections()
    await new Promise<void>((resolve) => this.#server.close(() => resolve()))
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const answer = (status: number, body?: string) => {
      response.writeHead(status, body === undefined ? {} : { 'content-type': 'application/json' })
      response.end(body)
    }
    if (!this.#isAllowed(request)) {
      response.shouldKeepAlive = false
      return answer(401)
    }
    this.#onKnown(request.socket)
    // No stream from here to there, and no session to end.
    if (request.method !== 'POST') return answer(405)
    const gone = new AbortController()
    response.once('close', () => gone.abort())
    const signal = AbortSignal.any([gone.signal, this.#over.signal])
    try {
      const reply = await this.take(await read(request), signal)
      answer(reply === undefined ? 202 : 200, reply)
    } catch {
      answer(400, ToolProtocol.unreadable)
    }
  }

  /** The bearer, and no page of a browser's. */
  #isAllowed(request: IncomingMessage): boolean {
    const given = Buffer.from(request.headers.authorization ?? '')
    const wanted = Buffer.from(`Bearer ${this.token}`)
    return (
      given.length === wanted.length &&
      crypto().timingSafeEqual(given, wanted) &&
      request.headers.origin === undefined
    )
  }
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
