// RuntimeClient: a session with a runtime.
import type { RuntimeEvent, RuntimeUploadRequest } from '../../native/native'
import { abortable, throwIfAborted } from '../abort'
import { callSite, placedAt } from '../call-site'
import { invalidOption, settle, SheepdogError, toError } from '../error'
import { native } from '../native'
import { check, checkOptions, show } from '../option'
import { host } from './host'

/** A shell command. */
export interface RuntimeCommand {
  command: string
  /** Made when missing. */
  cwd?: string
  env?: Record<string, string>
}

/** How to connect. */
export interface ConnectOptions {
  token?: string
  /** Default 60 s. */
  connectTimeoutMs?: number
  signal?: AbortSignal
}

/** What a request may have beside its own words. */
export interface ExecuteOptions {
  /** Taken out of everything that the runtime says. */
  secrets?: string[]
  /** Watched on the runtime's side: each finished file is asked an URL for. */
  artifactsDirs?: string[]
  /** gitignore rules that stand above the directories' own `.artifactignore`. */
  artifactsIgnore?: string
  /** Fetched before anything runs; `.zip` is unpacked. */
  downloads?: { downloadUrl: string; workingDir: string }[]
  /**
   * Called for each message of the agent. An error that it throws, or rejects with, stops the request and is the request's error.
   * Return a promise to slow the runtime down: while promises for more than 1 MiB of text have not settled, nothing more is read.
   * The result of the request does not wait for them.
   */
  onAssistantMessage?(textBlocks: string[]): unknown
  /** Called for each piece of output. Errors and promises count as with `onAssistantMessage`. */
  onCommandOutput?(output: { stream: 'stdout' | 'stderr'; text: string; command: string }): unknown
  /** Where to put a file. Also asked after the request, until the session has ended. */
  onArtifactUploadRequest?(artifact: {
    filename: string
    filepath: string
  }): UploadTarget | Promise<UploadTarget>
  /**
   * How an upload went; also called after the request, until the session has ended. Runtimes of others don't tell. What it throws
   * while its request runs stops the request, as with `onAssistantMessage`.
   */
  onArtifactUploaded?(artifact: ArtifactUpload): void
  /** The whole request; RUNTIME_TIMED_OUT. Default off. */
  timeoutMs?: number
  /** Silence of the runtime; RUNTIME_IDLE. Default off. */
  idleTimeoutMs?: number
  signal?: AbortSignal
}

/** Where a file is to be PUT. */
export interface UploadTarget {
  presignedUrl: string
  contentType: string
}

/** How the upload of a file went. */
export interface ArtifactUpload {
  /** The directory as it was given, joined with the part below: `filepath` of the request. */
  path: string
  status: 'uploaded' | 'failed'
  /** Of what was sent. */
  bytes?: number
  /** Of what was sent, in hexadecimal. */
  sha256?: string
  /** How often it was tried. */
  attempts: number
  /** Why it failed. */
  reason?: string
}

/** A prompt's options. */
export interface QueryOptions extends ExecuteOptions {
  systemPrompt: string
  model: string
  /** A bare JSON Schema. */
  outputSchema?: object
  agentEnv?: Record<string, string>
  preCommands?: RuntimeCommand[]
  postCommands?: RuntimeCommand[]
}

export interface QueryResult {
  data:
    { type: 'text'; text: string } | { type: 'structured_output'; structuredOutput: Record<string, unknown> }
  metadata: Record<string, unknown>
}

export interface ExecuteResult {
  /** As many as ran: the first failure is the last. `truncated`: stdout is head and tail only. */
  results: {
    command: string
    /** -1 when a signal ended it. */
    exitCode: number
    /** The signal's name; runtimes of others don't tell. */
    signal?: string
    stdout?: string
    truncated?: boolean
  }[]
}

/** How a session ended. */
export interface SessionEndResult {
  /** False when the connection was lost before. */
  confirmed: boolean
  uploaded: number
  undelivered: { path: string; reason: string }[]
}

const variables = (path: string, value: unknown): void => {
  check.record(path, value)
  for (const [name, text] of Object.entries(value as object)) {
    if (name === '' || /[=\0]/.test(name))
      throw invalidOption(path, `no variable can have the name ${show(name)}`)
    check.string(`${path}.${name}`, text)
  }
}

const commandChecks = { command: check.name, cwd: check.name, env: variables }

const commands = (path: string, value: unknown): void => {
  if (!Array.isArray(value)) throw invalidOption(path, 'expected an array of commands')
  value.forEach((command, index) => {
    if (command === undefined || command === null)
      throw invalidOption(`${path}[${index}]`, 'expected a command')
    checkOptions(command, commandChecks, `${path}[${index}]`)
    check.name(`${path}[${index}].command`, (command as RuntimeCommand).command)
  })
}

const executeChecks = {
  secrets: check.strings,
  artifactsDirs: check.strings,
  artifactsIgnore: check.string,
  downloads: (path: string, value: unknown) => {
    if (!Array.isArray(value)) throw invalidOption(path, 'expected an array of downloads')
    value.forEach((download, index) => {
      check.object(`${path}[${index}]`, download)
      check.name(`${path}[${index}].downloadUrl`, download.downloadUrl)
      check.name(`${path}[${index}].workingDir`, download.workingDir)
    })
  },
  onAssistantMessage: check.function,
  onCommandOutput: check.function,
  onArtifactUploadRequest: check.function,
  onArtifactUploaded: check.function,
  timeoutMs: check.timeout,
  idleTimeoutMs: check.timeout,
  signal: check.signal,
}

const queryChecks = {
  ...executeChecks,
  systemPrompt: check.string,
  model: check.string,
  outputSchema: check.object,
  agentEnv: variables,
  preCommands: commands,
  postCommands: commands,
}

type NativeClient = InstanceType<typeof native.NativeRuntimeClient>

type RequestEnd = Extract<RuntimeEvent, { kind: 'answered' | 'ran' }>
type NativeRequest = Parameters<NativeClient['request']>[0]

interface Running {
  options: ExecuteOptions
  resolve(end: RequestEnd): void
  reject(error: unknown): void
}

/** Characters that callbacks may have been given and not taken before nothing more is read. */
const maxUntakenLength = 1 << 20

/** One session with a runtime; one request at a time. It keeps the process alive until it is closed. */
export class RuntimeClient implements AsyncDisposable {
  readonly #client: NativeClient
  readonly #running = new Map<number, Running>()
  /** Of the last request that had them: files may be finished later. */
  #onUploadRequest: ExecuteOptions['onArtifactUploadRequest']
  #onUploaded: ExecuteOptions['onArtifactUploaded']
  /** Events of a request can come before its number has. */
  #starting: Promise<unknown> = Promise.resolve()

  /** Promises of callbacks that have not settled, and the length of the text that they were given. */
  readonly #untaken = new Set<Promise<unknown>>()
  #untakenLength = 0

  /** Resolves when all that the session brought has been told. */
  readonly #allTold: Promise<void>
  #tellAll!: () => void

  private constructor(client: NativeClient) {
    this.#client = client
    this.#allTold = new Promise((resolve) => (this.#tellAll = resolve))
    void this.#deliver()
  }

  /**
   * Rejects with RUNTIME_UNAUTHORIZED, RUNTIME_CLOSED (nobody there), RUNTIME_TIMED_OUT, RUNTIME_ABORTED, INVALID_OPTION.
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
   * Whether the runtime numbers its messages and continues the session after a broken connection. `false`: it knows the
   * protocol without hello, and a broken connection ends the session with RUNTIME_CLOSED. `undefined` until the runtime
   * has sent its first message.
   */
  get resumes(): boolean | undefined {
    return this.#client.resumes ?? undefined
  }

  /** Has the runtime's agent answer a prompt. */
  async query(prompt: string, options: QueryOptions): Promise<QueryResult> {
    check.string('prompt', prompt)
    checkOptions(options, queryChecks)
    check.string('systemPrompt', options?.systemPrompt)
    check.string('model', options?.model)
    const { systemPrompt, model, outputSchema, agentEnv, preCommands, postCommands } = options
    const end = await this.#request(options, {
      prompt: {
        systemPrompt,
        userPrompt: prompt,
        model,
        outputFormat: outputSchema && JSON.stringify({ type: 'json_schema', schema: outputSchema }),
        agentEnv,
        preCommands,
        postCommands,
      },
    })
    // The core sees to it that a prompt's end is an answer.
    const { text, structuredOutput, metadata } = end as Extract<RequestEnd, { kind: 'answered' }>
    const data: QueryResult['data'] =
      structuredOutput === undefined
        ? { type: 'text', text }
        : { type: 'structured_output', structuredOutput: JSON.parse(structuredOutput) }
    return { data, metadata: JSON.parse(metadata) }
  }

  /** Runs commands one after the other, until one fails. */
  async executeCommands(
    list: (string | RuntimeCommand)[],
    options: ExecuteOptions = {},
  ): Promise<ExecuteResult> {
    const normal = Array.isArray(list)
      ? list.map((command) => (typeof command === 'string' ? { command } : command))
      : list
    commands('commands', normal)
    checkOptions(options, executeChecks)
    const end = await this.#request(options, { commands: normal })
    // The core sees to it that the end of commands is their results.
    return { results: (end as Extract<RequestEnd, { kind: 'ran' }>).results }
  }

  /** Ends the session once all files are home. Any number of times, the same answer; never rejects. */
  async endSession(): Promise<SessionEndResult> {
    const end = await settle<SessionEndResult>(this.#client.endSession() as never)
    await this.#allTold
    return end
  }

  /** Ends the session, then closes the connection. */
  async close(): Promise<void> {
    await settle<void>(this.#client.close() as never)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #request(options: ExecuteOptions, asked: NativeRequest): Promise<RequestEnd> {
    const { signal, secrets, artifactsDirs, artifactsIgnore, downloads, timeoutMs, idleTimeoutMs } = options
    throwIfAborted(signal, 'RUNTIME_ABORTED', 'the request was not sent: its abort signal was aborted')
    const site = callSite()
    const request = { ...asked, secrets, artifactsDirs, artifactsIgnore, downloads, timeoutMs, idleTimeoutMs }
    const sent = settle<number>(this.#client.request(request) as never)
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
    return abortable(placedAt(ended, site), signal, 'RUNTIME_ABORTED', stop)
  }

  #abort(number: number | undefined): void {
    if (number !== undefined) void settle<void>(this.#client.abort(number) as never)
  }

  /** Takes events as long as there are any, and deals them out. */
  async #deliver(): Promise<void> {
    for (;;) {
      // A caller that is behind slows the runtime: events wait in the core, which stops reading.
      while (this.#untakenLength > maxUntakenLength && this.#untaken.size > 0)
        await Promise.race(this.#untaken)
      const events = await settle<RuntimeEvent[]>(this.#client.nextEvents() as never)
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
    if (event.kind === 'asked') {
      void this.#onUploadRequested(event.uploadRequest)
      return
    }
    if (event.kind === 'confirmed') {
      this.#tellAll()
      return
    }
    if (event.kind === 'uploaded') {
      this.#tellUploaded(event.upload)
      return
    }
    const { request } = event
    const running = this.#running.get(request)
    if (!running) return
    if (event.kind === 'failed') {
      this.#running.delete(request)
      running.reject(toError(event.error))
      return
    }
    if (event.kind === 'answered' || event.kind === 'ran') {
      this.#running.delete(request)
      running.resolve(event)
      return
    }
    try {
      const returned: unknown = tell(running.options, event)
      if (returned instanceof Promise) this.#untake(returned, request, lengthOf(event))
    } catch (error) {
      this.#fail(request, error)
    }
  }

  /** Counts what a callback was given until its promise settles; a rejection fails the request. */
  #untake(returned: Promise<unknown>, request: number, length: number): void {
    this.#untakenLength += length
    const taken = returned
      .catch((error) => this.#fail(request, error))
      .finally(() => {
        this.#untakenLength -= length
        this.#untaken.delete(taken)
      })
    this.#untaken.add(taken)
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

  async #onUploadRequested(request: RuntimeUploadRequest): Promise<void> {
    const { filename, filepath } = request
    try {
      if (!this.#onUploadRequest) throw new Error('the client has no callback for artifacts')
      const target = await this.#onUploadRequest({ filename, filepath })
      check.name('presignedUrl', target?.presignedUrl)
      check.string('contentType', target?.contentType)
      await settle(this.#client.answer(request, target.presignedUrl, target.contentType))
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      await settle(this.#client.decline(request, `the client's callback failed: ${reason}`))
    }
  }
}

function lengthOf(event: Extract<RuntimeEvent, { kind: 'assistant' | 'output' }>): number {
  return event.kind === 'output'
    ? event.text.length
    : event.textBlocks.reduce((sum, { length }) => sum + length, 0)
}

function tell(
  options: ExecuteOptions,
  event: Extract<RuntimeEvent, { kind: 'assistant' | 'output' }>,
): unknown {
  if (event.kind === 'assistant') return options.onAssistantMessage?.(event.textBlocks)
  const { stream, text, command } = event
  return options.onCommandOutput?.({ stream, text, command })
}
