// RuntimeClient: a session with a runtime.
import { toJson } from '../json'
import { abortable, throwIfAborted } from '../abort'
import { callSite, placedAt } from '../call-site'
import { invalidOption, settle, SheepdogError, toError, type Fault } from '../error'
import { LONGEST_TIMER_MS, timers } from '../host'
import { native } from '../native'
import { check, checkNoCallback, checkOptions, givenOf, show } from '../option'
import { host } from './host'
import { FileReceiver, type ReceiveOptions, type Receiver } from './receiver'
import {
  commands,
  executeChecks,
  queryChecks,
  type ArtifactUpload,
  type ExecuteOptions,
  type ExecuteResult,
  type QueryOptions,
  type QueryResult,
  type RuntimeCommand,
  type SessionEndResult,
} from './request'

/** Options of `RuntimeClient.connect`. */
export interface ConnectOptions {
  /**
   * Token of the runtime.
   *
   * @default none
   * @throws RUNTIME_UNAUTHORIZED when it is missing or wrong.
   */
  token?: string
  /**
   * Longest wait for the connection and the first answer, in milliseconds.
   *
   * @default 60_000
   * @throws RUNTIME_TIMED_OUT
   */
  connectTimeoutMs?: number
  /**
   * Gives the connection attempt up when aborted.
   *
   * @throws RUNTIME_ABORTED
   */
  signal?: AbortSignal
}

type NativeClient = InstanceType<typeof native.NativeRuntimeClient>

/** How a request ended: an agent's answer, or the results of commands. */
interface RequestEnd {
  metadata: Record<string, unknown>
  data:
    { type: 'text'; text: string } | { type: 'structured_output'; structured_output: Record<string, unknown> }
  results: (Omit<ExecuteResult['results'][number], 'exitCode'> & { exit_code: number })[]
}

interface UploadAsked {
  filename: string
  filepath: string
  upload_id?: string
}

interface Uploaded extends Omit<ArtifactUpload, 'path' | 'reason'> {
  filepath: string
  error?: string
}

/** Progress of a request. */
type Told =
  | { kind: 'assistant'; request: number; textBlocks: string[] }
  | { kind: 'output'; request: number; stream: 'stdout' | 'stderr'; text: string; command: string }

/** An event of the session, as the core tells it (crates/runtime/src/client/event.rs). */
type RuntimeEvent =
  | Told
  | ({ kind: 'uploadRequested' } & UploadAsked)
  | ({ kind: 'uploaded' } & Uploaded)
  | { kind: 'ended'; request: number; outcome: { Ok?: RequestEnd; Err?: Fault } }
  | { kind: 'confirmed' }

interface Running {
  options: ExecuteOptions
  resolve(end: RequestEnd): void
  reject(error: unknown): void
}

/** Characters that callbacks may have been given and not taken before nothing more is read. */
const maxUntakenLength = 1 << 20

/**
 * A session with a runtime. It sends one request at a time and keeps this process alive until it is
 * closed.
 *
 * @example
 * await using client = await RuntimeClient.connect('ws://127.0.0.1:8080')
 * const { results } = await client.executeCommands(['npm ci', 'npm test'])
 */
export class RuntimeClient implements AsyncDisposable {
  readonly #client: NativeClient
  readonly #running = new Map<number, Running>()
  /** Callbacks of the last request that had them: files may be finished later. */
  #onUploadRequest: ExecuteOptions['onArtifactUploadRequest']
  #onUploaded: ExecuteOptions['onArtifactUploaded']
  #receiver: Promise<FileReceiver> | undefined
  /** Events of a request can come before its number has. */
  #starting: Promise<unknown> = Promise.resolve()

  /** By request: length of the text that callbacks were given and whose promises have not settled. */
  readonly #untaken = new Map<number, number>()
  /** Tells the delivery that less is untaken. */
  #onTaken = () => {}

  /** Resolves when all that the session brought has been told. */
  readonly #allTold: Promise<void>
  #tellAll!: () => void

  private constructor(client: NativeClient) {
    this.#client = client
    this.#allTold = new Promise((resolve) => (this.#tellAll = resolve))
    void this.#deliver()
  }

  /**
   * Connects to a runtime.
   *
   * @param url Address of the runtime, `ws://` or `wss://`.
   * @throws RUNTIME_UNAUTHORIZED, RUNTIME_UNREACHABLE (nothing answers there), RUNTIME_TIMED_OUT,
   *   RUNTIME_ABORTED, INVALID_OPTION
   */
  static async connect(url: string, options?: ConnectOptions): Promise<RuntimeClient> {
    check.name('url', url)
    checkOptions(options, { token: check.name, connectTimeoutMs: check.timeout, signal: check.signal })
    const { token, connectTimeoutMs, signal } = options ?? {}
    const abortedText = 'the connection was not opened: its abort signal was aborted'
    throwIfAborted(signal, 'RUNTIME_ABORTED', abortedText)
    const connection = new native.NativeConnection(url, token, connectTimeoutMs)
    const opened = settle(connection.open(host), callSite()) as Promise<NativeClient>
    const client = await abortable(opened, signal, 'RUNTIME_ABORTED', () => connection.abort())
    if (signal?.aborted) await settle(client.close())
    throwIfAborted(signal, 'RUNTIME_ABORTED', abortedText)
    return new RuntimeClient(client)
  }

  /**
   * True when the runtime numbers its messages and continues the session after a broken connection.
   * False when it does not: a broken connection then ends the session with RUNTIME_CLOSED. Undefined
   * until its first message has arrived.
   */
  get resumes(): boolean | undefined {
    return this.#client.resumes ?? undefined
  }

  /**
   * Sends a prompt to the runtime's agent and waits for the answer.
   *
   * @throws RUNTIME_FAILED, RUNTIME_TIMED_OUT, RUNTIME_IDLE, RUNTIME_CLOSED; RUNTIME_BUSY while another
   *   request runs.
   */
  async query(prompt: string, options: QueryOptions = {}): Promise<QueryResult> {
    check.string('prompt', prompt)
    checkOptions(options, queryChecks)
    // Both are strings on the wire, also for other implementations of the runtime; an empty one says nothing.
    const { systemPrompt = '', model = '' } = options
    const { outputSchema, agentEnv, preCommands, postCommands, downloads } = options
    const end = await this.#request(options, {
      message_type: 'invocation_message',
      system_prompt: systemPrompt,
      user_prompt: prompt,
      model,
      output_format_json_schema_str:
        outputSchema && toJson('outputSchema', { type: 'json_schema', schema: outputSchema }),
      agent_env: agentEnv,
      pre_agent_invocation_commands: preCommands,
      post_agent_invocation_commands: postCommands,
      pre_agent_downloadables: downloadables(downloads),
    })
    // The core sees to it that a prompt's end is an answer.
    const { data, metadata } = end
    return data.type === 'text'
      ? { data: { type: 'text', text: data.text }, metadata }
      : { data: { type: 'structured_output', structuredOutput: data.structured_output }, metadata }
  }

  /**
   * Runs commands one after the other, until one fails.
   *
   * @throws RUNTIME_FAILED, RUNTIME_TIMED_OUT, RUNTIME_IDLE, RUNTIME_CLOSED; RUNTIME_BUSY while another
   *   request runs.
   */
  async executeCommands(
    list: readonly (string | RuntimeCommand)[],
    options: ExecuteOptions = {},
  ): Promise<ExecuteResult> {
    if (!Array.isArray(list)) commands('commands', list)
    const normal = list.map((command) => (typeof command === 'string' ? { command } : command))
    commands('commands', normal)
    checkOptions(options, executeChecks)
    const end = await this.#request(options, {
      message_type: 'command_execution_message',
      commands: normal,
      pre_execution_downloadables: downloadables(options.downloads),
    })
    // The core sees to it that the end of commands is their results.
    return {
      results: end.results.map(({ command, exit_code: exitCode, ...facts }) => ({
        command,
        exitCode,
        ...facts,
      })),
    }
  }

  /**
   * Receives files at an address of this process, for those without an object store. From now on, files of requests without
   * `onArtifactUploadRequest` are sent there. A file lands below `folder` by its `filepath`, and never outside of it:
   * `/out/report.txt` becomes `<folder>/out/report.txt`. It has its name only when it is complete. The address is closed at
   * the end of the session.
   *
   * @throws INVALID_OPTION for an address that cannot be listened on, and for a folder that cannot be made.
   * @example
   * await client.receive({ folder: 'results' })
   * await client.executeCommands(['npm test'], { artifactsDirs: ['/sandbox/out'] })
   * const { undelivered } = await client.endSession()
   */
  async receive(options: ReceiveOptions): Promise<Receiver> {
    if (this.#receiver)
      throw invalidOption('receive()', 'was called already: a client receives into one folder')
    this.#receiver = FileReceiver.start(options)
    try {
      const { url, folder } = await this.#receiver
      return { url, folder }
    } catch (error) {
      this.#receiver = undefined
      throw error
    }
  }

  /**
   * Ends the session. Resolves when all files are uploaded, within 60 seconds in any case (95 seconds
   * with other implementations of the runtime). Never rejects. Further calls give the same result.
   */
  async endSession(): Promise<SessionEndResult> {
    this.#releaseAll()
    const end = JSON.parse(await settle<string>(this.#client.endSession())) as SessionEndResult
    await this.#allTold
    await this.#closeReceiver()
    return end
  }

  /** Ends the session, then closes the connection. Never rejects. */
  async close(): Promise<void> {
    checkNoCallback('close', arguments)
    this.#releaseAll()
    await settle<void>(this.#client.close() as never)
    await this.#closeReceiver()
  }

  async #closeReceiver(): Promise<void> {
    await (await this.#receiver?.catch(() => undefined))?.close()
  }

  /** Same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** `own`: the message as it goes over the wire (crates/runtime/src/wire/client_message.rs), without what all requests have. */
  async #request(options: ExecuteOptions, own: object): Promise<RequestEnd> {
    const { signal, secrets, artifactsDirs, artifactsIgnore, timeoutMs, idleTimeoutMs } = options
    throwIfAborted(signal, 'RUNTIME_ABORTED', 'the request was not sent: its abort signal was aborted')
    const site = callSite()
    const shared = {
      secrets_to_redact: secrets,
      artifacts_dirs: artifactsDirs,
      artifacts_ignore_content: artifactsIgnore,
    }
    const message = toJson('request', { ...own, ...shared })
    const sent = settle<number>(this.#client.request(message, timeoutMs, idleTimeoutMs) as never)
    let number: number | undefined
    const ended = new Promise<RequestEnd>((resolve, reject) => {
      this.#starting = sent.then(
        (given) => {
          number = given
          if (options.onArtifactUploadRequest) this.#onUploadRequest = options.onArtifactUploadRequest
          if (options.onArtifactUploaded) this.#onUploaded = options.onArtifactUploaded
          this.#running.set(given, { options, resolve, reject })
        },
        (error) => reject(error),
      )
    })
    const stop = () => void this.#starting.then(() => this.#abort(number))
    // The core's clock ends the request. A callback that holds the delivery back must not keep that from its caller.
    const release = () => number !== undefined && this.#release(number)
    const timer =
      timeoutMs && Number.isFinite(timeoutMs)
        ? timers.setTimeout(release, Math.min(timeoutMs, LONGEST_TIMER_MS))
        : undefined
    return abortable(placedAt(ended, site), signal, 'RUNTIME_ABORTED', stop).finally(() =>
      timers.clearTimeout(timer),
    )
  }

  #abort(number: number | undefined): void {
    if (number === undefined) return
    this.#release(number)
    void settle<void>(this.#client.abort(number) as never)
  }

  /** Takes events as long as there are any, and deals them out. */
  async #deliver(): Promise<void> {
    for (;;) {
      // A caller that is behind slows the runtime: events wait in the core, which stops reading.
      while (this.#untakenLength() > maxUntakenLength)
        await new Promise<void>((resolve) => (this.#onTaken = resolve))
      const events = JSON.parse(await settle<string>(this.#client.nextEvents())) as RuntimeEvent[]
      if (events.length === 0) break
      await this.#starting
      for (const event of events) this.#onEvent(event)
    }
    for (const { reject } of this.#running.values()) {
      reject(new SheepdogError('RUNTIME_CLOSED', 'the session with the runtime is over'))
    }
    this.#running.clear()
    this.#tellAll()
  }

  #onEvent(event: RuntimeEvent): void {
    if (event.kind === 'uploadRequested') {
      return void this.#onUploadRequested(event)
    }
    if (event.kind === 'confirmed') return this.#tellAll()
    if (event.kind === 'uploaded') return this.#tellUploaded(uploadOf(event))
    const { request } = event
    const running = this.#running.get(request)
    if (!running) return
    if (event.kind === 'ended') {
      this.#running.delete(request)
      const { Ok: end, Err: fault } = event.outcome
      return end ? running.resolve(end) : running.reject(toError(fault!))
    }
    try {
      const returned: unknown = tell(running.options, event)
      if (returned instanceof Promise) this.#untake(returned, request, lengthOf(event))
    } catch (error) {
      this.#fail(request, error)
    }
  }

  #untakenLength(): number {
    return [...this.#untaken.values()].reduce((sum, length) => sum + length, 0)
  }

  /** Counts what a callback was given until its promise settles; a rejection fails the request. */
  #untake(returned: Promise<unknown>, request: number, length: number): void {
    this.#untaken.set(request, (this.#untaken.get(request) ?? 0) + length)
    void returned
      .catch((error) => this.#fail(request, error))
      .finally(() => {
        const left = this.#untaken.get(request)
        if (left === undefined) return
        this.#untaken.set(request, left - length)
        this.#onTaken()
      })
  }

  /** Nobody is given any more of this request: promises of its callbacks hold the delivery back no longer. */
  #release(request: number): void {
    const running = this.#running.get(request)
    if (running) running.options = {}
    this.#untaken.delete(request)
    this.#onTaken()
  }

  #releaseAll(): void {
    for (const request of this.#running.keys()) this.#release(request)
  }

  /** The caller's own error: the request is stopped, and what the caller threw is what the caller gets. */
  #fail(request: number, error: unknown): void {
    const running = this.#running.get(request)
    if (!running) return
    this.#running.set(request, {
      options: {},
      resolve: () => running.reject(error),
      reject: () => running.reject(error),
    })
    this.#abort(request)
  }

  /** Its own error concerns the request that runs; after the last one there is nobody to tell it. */
  #tellUploaded(upload: ArtifactUpload): void {
    const [request] = this.#running.keys()
    const onFailure = (error: unknown) => {
      if (request !== undefined) this.#fail(request, error)
    }
    try {
      const returned: unknown = this.#onUploaded?.(upload)
      if (returned instanceof Promise) returned.catch(onFailure)
    } catch (error) {
      onFailure(error)
    }
  }

  async #onUploadRequested({ filename, filepath, upload_id }: UploadAsked): Promise<void> {
    const file = toJson('file', { filename, filepath, upload_id })
    try {
      const receiver = await this.#receiver
      if (!this.#onUploadRequest && !receiver)
        throw new Error('the client has no callback for artifacts, and receives none itself')
      const given = await this.#onUploadRequest?.({ filename, filepath })
      const target = given ?? receiver?.target(filepath)
      if (!target) throw new Error(`expected { presignedUrl, contentType }, got ${show(given)}`)
      check.name('presignedUrl', target.presignedUrl)
      check.string('contentType', target.contentType)
      await settle(this.#client.answer(file, target.presignedUrl, target.contentType))
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      await settle(this.#client.decline(file, `the client's callback failed: ${reason}`))
    }
  }
}

/** Downloads as they go over the wire. */
function downloadables(downloads: ExecuteOptions['downloads']): object[] | undefined {
  return downloads?.map(({ downloadUrl, workingDir }) => ({
    download_url: downloadUrl,
    working_dir: workingDir,
  }))
}

/** Without the facts that the runtime did not tell. */
function uploadOf({
  filepath: path,
  status,
  bytes,
  sha256,
  attempts,
  error: reason,
}: Uploaded): ArtifactUpload {
  return givenOf({ path, status, bytes, sha256, attempts, reason }) as ArtifactUpload
}

function lengthOf(event: Told): number {
  return event.kind === 'output'
    ? event.text.length
    : event.textBlocks.reduce((sum, { length }) => sum + length, 0)
}

function tell(options: ExecuteOptions, event: Told): unknown {
  if (event.kind === 'assistant') return options.onAssistantMessage?.(event.textBlocks)
  const { stream, text, command } = event
  return options.onCommandOutput?.({ stream, text, command })
}
