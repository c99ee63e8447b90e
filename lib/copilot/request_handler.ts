// The runtime's model requests, made by the program instead: over HTTP, or over a WebSocket.
import { SheepdogError, invalidOption, invalidOptions } from '../error'
import type {
  LlmInferenceHeaders,
  LlmInferenceHttpRequestChunkRequest,
  LlmInferenceHttpRequestStartRequest,
} from './generated'

/** A model request of the runtime. */
export interface CopilotRequestContext {
  /** Id of the request. */
  readonly requestId: string
  /** Id of the session that the request belongs to. */
  readonly sessionId?: string
  /** Id of the agent that the request belongs to. */
  readonly agentId?: string
  /** Id of that agent's parent. */
  readonly parentAgentId?: string
  /** Purpose of the request, in the runtime's words. */
  readonly interactionType?: string
  /** Transport of the request. */
  readonly transport: 'http' | 'websocket'
  /** Address of the request. You may change it. */
  url: string
  /** HTTP headers of the request. You may change them. */
  headers: LlmInferenceHeaders
  /** Aborted when the runtime gives the request up. */
  readonly signal: AbortSignal
}

/** Reason for the end of a WebSocket. */
export class CopilotWebSocketCloseStatus {
  /** The status of a normal end. */
  static readonly normalClosure = new CopilotWebSocketCloseStatus()

  constructor(
    /** Text for people. */
    readonly description?: string,
    /** Code of an error. */
    readonly errorCode?: string,
    /** The error itself. */
    readonly error?: Error,
  ) {}
}

type Send = (method: string, params: object) => Promise<unknown>

/** The way back to the runtime; a response is started once, and ended once. */
class ResponseWriter {
  #state: 'waiting' | 'started' | 'finished' = 'waiting'
  isCancelled = false

  constructor(
    readonly requestId: string,
    readonly send: Send,
  ) {}

  get isStarted(): boolean {
    return this.#state !== 'waiting'
  }

  get isFinished(): boolean {
    return this.#state === 'finished'
  }

  async start(status: number, headers: Record<string, string[]>, statusText?: string): Promise<void> {
    if (this.isStarted) throw invalidOptions('Copilot request response start() called twice.')
    this.#state = 'started'
    await this.send('llmInference.httpResponseStart', {
      requestId: this.requestId,
      status,
      statusText,
      headers,
    })
  }

  async write(data: string | Uint8Array): Promise<void> {
    if (this.isCancelled)
      throw new SheepdogError('SESSION_ABORTED', 'Copilot request was cancelled by the runtime.')
    if (!this.isStarted) throw invalidOptions('Copilot request response write() called before start().')
    if (this.isFinished)
      throw new SheepdogError(
        'SESSION_CLOSED',
        'Copilot request response write() called after end()/error().',
      )
    const binary = typeof data !== 'string'
    const text = binary ? Buffer.from(data).toString('base64') : data
    await this.#chunk({ data: text, binary, end: false })
  }

  async end(error?: { message: string; code?: string }): Promise<void> {
    if (this.isFinished) return
    this.#state = 'finished'
    await this.#chunk({ data: '', end: true, error })
  }

  async #chunk(chunk: object): Promise<void> {
    await this.send('llmInference.httpResponseChunk', { requestId: this.requestId, ...chunk })
  }
}

const writers = new WeakMap<CopilotRequestContext, ResponseWriter>()
const kOpen = Symbol('open')
const kClosed = Symbol('closed')
const kSuppressClose = Symbol('suppressClose')

/** A WebSocket of the runtime that your program serves. */
export abstract class CopilotWebSocketHandler implements AsyncDisposable {
  /** The request that opened the WebSocket. */
  protected readonly context: CopilotRequestContext
  /** @internal */
  readonly [kClosed]: Promise<CopilotWebSocketCloseStatus>;
  /** @internal */
  [kSuppressClose] = false
  readonly #writer: ResponseWriter
  #resolveClosed!: (status: CopilotWebSocketCloseStatus) => void
  #isClosed = false

  protected constructor(context: CopilotRequestContext) {
    const writer = writers.get(context)
    if (!writer) throw invalidOption('context', 'WebSocket response bridge is not attached')
    this.context = context
    this.#writer = writer
    this[kClosed] = new Promise((resolve) => (this.#resolveClosed = resolve))
  }

  /** Receives a message from the runtime. */
  abstract sendRequestMessage(data: string | Uint8Array): Promise<void> | void

  /**
   * Sends a message to the runtime. Resolves when the runtime has taken it.
   *
   * @throws CONNECTION_LOST
   */
  async sendResponseMessage(data: string | Uint8Array): Promise<void> {
    await this.#writer.write(data)
  }

  /** Closes the WebSocket. */
  async close(status = CopilotWebSocketCloseStatus.normalClosure): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    const { error, description, errorCode } = status
    await this.#writer.end(error && { message: description ?? error.message, code: errorCode })
    this.#resolveClosed(status)
  }

  /** Same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (!this[kSuppressClose]) await this.close()
  }

  /** @internal */
  async [kOpen](): Promise<void> {}
}

/**
 * Forwards the messages of a WebSocket to the address of its request. Needs the global `WebSocket`
 * (Node 22).
 */
export class CopilotWebSocketForwarder extends CopilotWebSocketHandler {
  #upstream: WebSocketLike | undefined

  constructor(context: CopilotRequestContext) {
    super(context)
  }

  /** Forwards a message. */
  sendRequestMessage(data: string | Uint8Array): void {
    if (this.#upstream?.readyState === OPEN) this.#upstream.send(data)
  }

  /** @internal */
  override async [kOpen](): Promise<void> {
    const { WebSocket } = globalThis as unknown as { WebSocket?: new (url: string) => WebSocketLike }
    if (!WebSocket)
      throw new Error('this version of Node has no WebSocket: pass your own openWebSocket, or use Node 22')
    const upstream = new WebSocket(this.context.url)
    upstream.binaryType = 'arraybuffer'
    this.#upstream = upstream
    const fail = (error: Error) =>
      this.close(new CopilotWebSocketCloseStatus(error.message, undefined, error))
    upstream.addEventListener('message', ({ data }) => {
      const message = data instanceof ArrayBuffer ? new Uint8Array(data) : (data as string | Uint8Array)
      this.sendResponseMessage(message).catch((error: Error) => fail(error))
    })
    await new Promise<void>((resolve, reject) => {
      upstream.addEventListener('open', () => resolve())
      upstream.addEventListener('close', () => void this.close())
      upstream.addEventListener('error', () => {
        const error = new Error('WebSocket error')
        reject(error)
        void fail(error)
      })
    })
  }

  /** Closes both WebSockets. */
  override async close(status?: CopilotWebSocketCloseStatus): Promise<void> {
    this.#upstream?.close()
    await super.close(status)
  }
}

const OPEN = 1

interface WebSocketLike {
  binaryType: string
  readyState: number
  send(data: string | Uint8Array): void
  close(): void
  addEventListener(type: string, listener: (event: { data?: unknown }) => void): void
}

/** Sends the runtime's model requests. Override the methods whose behaviour you want to change. */
export class CopilotRequestHandler {
  /** Sends an HTTP request. By default it is sent as it is. */
  protected sendRequest(request: Request, context: CopilotRequestContext): Promise<Response> {
    return fetch(request, { signal: context.signal })
  }

  /** Opens a WebSocket. By default messages are forwarded to its address. */
  protected openWebSocket(context: CopilotRequestContext): Promise<CopilotWebSocketHandler> {
    return Promise.resolve(new CopilotWebSocketForwarder(context))
  }

  /** @internal */
  async [kOpen](exchange: Exchange): Promise<void> {
    const { context, writer } = exchange
    if (context.transport !== 'websocket') {
      const response = await this.sendRequest(await exchange.toRequest(), context)
      return relay(response, writer)
    }
    const handler = await this.openWebSocket(context)
    try {
      await handler[kOpen]()
      await writer.start(101, {})
      const pump = async () => {
        for await (const message of exchange.body()) await handler.sendRequestMessage(message)
      }
      const ended = await Promise.race([pump(), handler[kClosed]]).catch((error: unknown) => {
        handler[kSuppressClose] = true
        throw error
      })
      if (!ended) await handler.close()
      const { error } = await handler[kClosed]
      if (error) throw error
    } finally {
      await handler[Symbol.asyncDispose]()
    }
  }
}

async function relay(response: Response, writer: ResponseWriter): Promise<void> {
  const headers: Record<string, string[]> = {}
  response.headers.forEach((value, name) => {
    if (name !== 'set-cookie') (headers[name] ??= []).push(value)
  })
  const cookies = response.headers.getSetCookie()
  if (cookies.length > 0) headers['set-cookie'] = cookies
  await writer.start(response.status, headers, response.statusText || undefined)
  if (response.body) {
    for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
      if (chunk.byteLength > 0) await writer.write(chunk)
    }
  }
  await writer.end()
}

/** Headers that belong to a connection, not to a request. */
const ofTheConnection = [
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
  'keep-alive',
  'upgrade',
  'proxy-connection',
  'te',
  'trailer',
]

type Piece = { data: string | Uint8Array } | { end: true } | { failed: Error }

/** One request on its way: its body comes in pieces, maybe before its head. */
class Exchange {
  readonly writer: ResponseWriter
  readonly #abort = new AbortController()
  readonly #pieces: Piece[] = []
  #wake = () => {}
  #method = 'GET'
  context!: CopilotRequestContext

  constructor(requestId: string, send: Send) {
    this.writer = new ResponseWriter(requestId, send)
  }

  begin(params: LlmInferenceHttpRequestStartRequest): void {
    const { method, transport, ...rest } = params
    this.#method = method.toUpperCase()
    this.context = { ...rest, transport: transport ?? 'http', signal: this.#abort.signal }
    writers.set(this.context, this.writer)
  }

  push({ data, binary, end, cancel, cancelReason }: LlmInferenceHttpRequestChunkRequest): void {
    if (cancel) {
      this.writer.isCancelled = true
      this.#abort.abort()
      const why = cancelReason ? `: ${cancelReason}` : ''
      this.#pieces.push({ failed: new Error(`Request cancelled by runtime${why}`) })
    } else {
      if (data) this.#pieces.push({ data: binary ? new Uint8Array(Buffer.from(data, 'base64')) : data })
      if (end) this.#pieces.push({ end: true })
    }
    this.#wake()
  }

  async *body(): AsyncGenerator<string | Uint8Array> {
    for (;;) {
      const piece = this.#pieces.shift()
      if (!piece) await new Promise<void>((resolve) => (this.#wake = resolve))
      else if ('failed' in piece) throw piece.failed
      else if ('end' in piece) return
      else yield piece.data
    }
  }

  async toRequest(): Promise<Request> {
    const headers = new Headers()
    for (const [name, values] of Object.entries(this.context.headers)) {
      if (ofTheConnection.includes(name.toLowerCase())) continue
      for (const value of (values as string[] | undefined) ?? []) headers.append(name, value)
    }
    const pieces: Uint8Array[] = []
    for await (const piece of this.body())
      pieces.push(typeof piece === 'string' ? new TextEncoder().encode(piece) : piece)
    const hasBody = !['GET', 'HEAD'].includes(this.#method) && pieces.length > 0
    const body = hasBody ? (Buffer.concat(pieces) as never) : undefined
    return new Request(this.context.url, { method: this.#method, headers, body })
  }
}

/** Handlers of the runtime's `llmInference.*` requests. */
export interface RequestAdapter {
  httpRequestStart: (params: never) => Promise<unknown>
  httpRequestChunk: (params: never) => Promise<unknown>
  /** Ends all requests, because the runtime is gone. */
  cancelAll(): void
}

export function createRequestAdapter(handler: CopilotRequestHandler, send: Send): RequestAdapter {
  const exchanges = new Map<string, Exchange>()
  const exchangeOf = (requestId: string): Exchange => {
    let exchange = exchanges.get(requestId)
    if (!exchange) exchanges.set(requestId, (exchange = new Exchange(requestId, send)))
    return exchange
  }
  const run = async (exchange: Exchange): Promise<void> => {
    const { writer } = exchange
    try {
      await handler[kOpen](exchange)
      if (!writer.isFinished)
        throw new Error('Copilot request handler returned without finalising the response.')
    } catch (error) {
      const { isCancelled } = writer
      const message = error instanceof Error ? error.message : String(error)
      const reason = isCancelled
        ? { message: 'Request cancelled by runtime', code: 'cancelled' }
        : { message }
      try {
        if (!writer.isStarted) await writer.start(isCancelled ? 499 : 502, {})
        await writer.end(reason)
      } catch {
        // The runtime is gone, or has given the request up.
      }
    } finally {
      exchanges.delete(writer.requestId)
    }
  }
  return {
    async httpRequestStart(params: LlmInferenceHttpRequestStartRequest) {
      const exchange = exchangeOf(params.requestId)
      exchange.begin(params)
      void run(exchange)
      return {}
    },
    async httpRequestChunk(params: LlmInferenceHttpRequestChunkRequest) {
      exchangeOf(params.requestId).push(params)
      return {}
    },
    cancelAll() {
      for (const [requestId, exchange] of exchanges)
        exchange.push({ requestId, data: '', cancel: true, cancelReason: 'it is gone' })
    },
  }
}
