// An agent for a client of the Agent Client Protocol: the client's streams on one side, the agent's program on the other.
import type { Readable, Writable } from 'node:stream'
import { abortable, throwIfAborted } from '../abort'
import { callSite } from '../call-site'
import { attach, delivery, release, type Block } from '../delivery'
import { invalidOption, settle } from '../error'
import { pause } from '../host'
import type { nativeLimit } from '../limit'
import { native } from '../native'
import { checkOptions, show } from '../option'
import { nativeBudget } from './budget'
import type { HarnessOptions } from './request'
import { openChecks, type OpenOptions, type SessionWideOption } from './session/request'
import { mergedOptions, openSpec } from './session/specification'

/** Streams of a client of the Agent Client Protocol. */
export interface ProtocolClient {
  /** Messages of the client. The end of this stream is the end of the agent. */
  input: Readable
  /** Messages for the client. */
  output: Writable
  /**
   * The stderr of the agent, with the values of `redact` replaced. While more than 1 MiB waits for
   * its reader, further text is dropped, and a line says how much. Without a log it is dropped.
   */
  log?: Writable
}

/** Options of an agent that is served to a client. The options of the harness are the defaults. */
export interface ServeOptions extends Pick<OpenOptions, SessionWideOption | 'allow' | 'policy' | 'binary'> {
  /**
   * Level of what the agent may do. Permission requests that the level and `policy` leave open go to the
   * client. A mode above the level is refused.
   *
   * @default "ask"
   * @throws INVALID_OPTION when the agent cannot enforce the level.
   */
  permission?: 'plan' | 'edit' | 'auto' | 'ask'
}

const serveNames = [
  ...(['cwd', 'env', 'inheritEnv', 'containment', 'killGraceMs', 'redact', 'record'] as const),
  ...(['maxRecordBytes', 'name', 'signal', 'model', 'startTimeoutMs', 'idleTimeoutMs'] as const),
  ...(['toolIdleTimeoutMs', 'timeoutMs', 'sandbox', 'maxTokens', 'maxCostUsd', 'prices'] as const),
  ...(['budget', 'permission', 'allow', 'policy', 'binary'] as const),
] satisfies (keyof ServeOptions & keyof typeof openChecks)[]

const serveChecks = Object.fromEntries(serveNames.map((name) => [name, openChecks[name]]))

export async function serveAgent(
  defaults: HarnessOptions,
  client: ProtocolClient,
  options: ServeOptions | undefined,
  limits: ReturnType<typeof nativeLimit>[],
): Promise<void> {
  const site = callSite()
  const isWritable = (stream: Writable | undefined) => typeof stream?.write === 'function'
  if (typeof client?.input?.on !== 'function' || !isWritable(client.output))
    throw invalidOption('client', `expected { input, output }, two streams, got ${show(client)}`)
  if (client.log !== undefined && !isWritable(client.log))
    throw invalidOption('client', `expected a writable stream as log, got ${show(client.log)}`)
  checkOptions(options, serveChecks)
  const merged = mergedOptions(defaults, options)
  merged.permission = options?.permission ?? defaults.permission ?? 'ask'
  // The client brings servers and questions of its own.
  delete merged.mcpServers
  delete merged.resume
  delete merged.systemPrompt
  const { signal } = merged
  throwIfAborted(signal, 'AGENT_ABORTED', 'the agent was not started: its abort signal was already aborted')
  const face = new native.NativeFace(
    openSpec(defaults.provider, merged, undefined),
    limits,
    merged.budget && nativeBudget(merged.budget),
  )
  const channel = face.open(delivery)
  const output = new Output(client, channel.number)
  const stop = feed(client.input, face)
  output.onBroken = () => face.end()
  try {
    const ended = settle<void>(face.run(channel), site)
    await abortable(ended, signal, 'AGENT_ABORTED', () => face.abort())
  } finally {
    stop()
    await Promise.race([output.ended, pause(partingMs)])
  }
}

/** For a client that takes its last lines. Nothing of the agent is left by then. */
const partingMs = 2000

/** Hands the client's input to the agent, as fast as the agent takes it. */
function feed(input: Readable, face: InstanceType<typeof native.NativeFace>): () => void {
  const onData = (chunk: Buffer | string) => {
    input.pause()
    void settle(face.write(typeof chunk === 'string' ? Buffer.from(chunk) : chunk)).then(() => input.resume())
  }
  const onEnd = () => face.end()
  const events = { data: onData, end: onEnd, close: onEnd, error: onEnd }
  for (const [name, listener] of Object.entries(events)) input.on(name, listener)
  return () => {
    for (const [name, listener] of Object.entries(events)) input.off(name, listener)
    input.pause()
  }
}

/** The agent's lines on their way to the client, and its stderr on its way to the log. */
class Output {
  readonly #stream: Writable
  readonly #log: Log | undefined
  readonly #channel: number
  #isBroken = false
  /** The client takes nothing any more. */
  onBroken = () => {}
  /** Resolves when the last line was written, or can't be. */
  readonly ended: Promise<void>

  constructor({ output, log }: ProtocolClient, channel: number) {
    this.#stream = output
    this.#log = log && new Log(log)
    this.#channel = channel
    output.on('error', this.#onError)
    this.ended = new Promise((resolve) => {
      attach(channel, {
        onBlock: (block) => this.#write(block),
        onEnd: () => {
          this.#log?.end()
          const done = () => {
            output.off('error', this.#onError)
            resolve()
          }
          if (this.#isBroken || output.destroyed) done()
          else output.write('', done)
        },
      })
    })
  }

  #onError = () => {
    this.#isBroken = true
    this.onBroken()
  }

  #write(block: Block): void {
    const taken = () => release(this.#channel, block.weight)
    if (block.stream === 'stderr') {
      this.#log?.write(block.bytes!)
      return taken()
    }
    if (this.#isBroken || this.#stream.destroyed) return taken()
    this.#stream.write(block.bytes, taken)
  }
}

/** Bytes that may wait for the reader of the log. */
const maxWaitingLogBytes = 1 << 20

/** A log that nobody waits for: neither a slow reader nor one that is gone delays a message. */
class Log {
  #isBroken = false
  #droppedBytes = 0

  constructor(private readonly stream: Writable) {
    stream.on('error', this.#onError)
  }

  #onError = () => {
    this.#isBroken = true
  }

  write(piece: Uint8Array): void {
    if (this.#isBroken || this.stream.destroyed) return
    if (this.stream.writableLength > maxWaitingLogBytes) {
      this.#droppedBytes += piece.length
      return
    }
    this.#tellDropped()
    this.stream.write(piece)
  }

  end(): void {
    const done = () => this.stream.off('error', this.#onError)
    if (this.#isBroken || this.stream.destroyed) return void done()
    this.#tellDropped()
    this.stream.write('', done)
  }

  #tellDropped(): void {
    if (this.#droppedBytes === 0) return
    this.stream.write(`\n[sheepdog: ${this.#droppedBytes} bytes of the agent's log were dropped]\n`)
    this.#droppedBytes = 0
  }
}
