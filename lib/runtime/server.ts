// serveRuntime(): a runtime in this process.
import type { NativeInvocation } from '../../native/native'
import { onAbort, throwIfAborted } from '../abort'
import { callSite } from '../call-site'
import { invalidOption, settle, SheepdogError } from '../error'
import { native } from '../native'
import { check, checkNoCallback, checkOptions, optionsOf } from '../option'
import { Harness, type HarnessOptions } from '../harness'
import { checkProvider } from '../harness/agent_program'
import { nativeBudget } from '../harness/budget'
import { nativeLimit } from '../limit'
import { toSpec } from '../harness/request'
import { onTurn } from '../harness/seen_turn'
import { mergedOptions, openSpec } from '../harness/session/specification'
import { inheritance } from '../process/environment'
import { invoke, type AgentHandler } from './handler'
import { host } from './host'

/** Options of `serveRuntime`. */
export interface ServeRuntimeOptions {
  /** Answers prompts. Without `handler` and `provider` the runtime only runs commands. */
  handler?: AgentHandler
  /**
   * Coding-agent CLI of this machine that answers prompts.
   *
   * @throws INVALID_OPTION together with `handler`.
   */
  provider?: HarnessOptions['provider']
  /** Options of the harness for `provider`. Options that the client sends override them. */
  harness?: Partial<HarnessOptions>
  /**
   * `true`: one agent process answers all prompts of a client, over the Agent Client Protocol, so that
   * it knows the conversation. It uses one slot of `maxConcurrent` until the client's session ends.
   * `false`: a new process for each prompt.
   *
   * @default false
   */
  keepSession?: boolean
  /**
   * Address to listen on. Any address that other machines can reach needs a `token`.
   *
   * @default "127.0.0.1"
   */
  host?: string
  /**
   * Port to listen on; 0 takes any free port.
   *
   * @default 8080
   * @throws RUNTIME_PORT_IN_USE
   */
  port?: number
  /**
   * Secret that each client must send, as a bearer token or as the query parameter `token`.
   *
   * @default none; allowed on loopback only
   */
  token?: string
  /**
   * Origins from which browsers may connect. A browser from another origin gets status 403.
   *
   * @default []
   */
  allowedOrigins?: readonly string[]
  /**
   * Time between two heartbeat messages while a request runs, in milliseconds.
   *
   * @default 15_000
   */
  heartbeatIntervalMs?: number
  /**
   * How long the end of a session waits for artifacts, in milliseconds. A longer time, and none,
   * count as 55_000.
   *
   * @default 50_000
   */
  drainTimeoutMs?: number
  /**
   * Largest number of sessions at once. A further client gets status 503.
   *
   * @default 1000
   */
  maxSessions?: number
  /**
   * Closes the server when aborted.
   *
   * @throws RUNTIME_ABORTED when it is aborted before the server listens.
   */
  signal?: AbortSignal
}

const checks = optionsOf('serveRuntime()', {
  handler: check.object,
  provider: checkProvider,
  harness: check.object,
  keepSession: check.boolean,
  host: check.name,
  port: check.port,
  token: check.name,
  allowedOrigins: check.strings,
  heartbeatIntervalMs: check.timeout,
  drainTimeoutMs: check.timeout,
  maxSessions: check.count,
  signal: check.signal,
})

/**
 * Serves agents and commands over a WebSocket. Resolves when the server accepts connections.
 *
 * @throws INVALID_OPTION, also for an address that cannot be listened on; RUNTIME_PORT_IN_USE.
 *
 * @example
 * await using server = await serveRuntime({ port: 0, provider: 'codex' })
 * console.log(server.url)
 * await server.closed
 */
export async function serveRuntime(options: ServeRuntimeOptions): Promise<RuntimeServer> {
  checkOptions(options, checks)
  const { handler: given, provider, harness, keepSession, signal, ...spec } = options ?? {}
  if (given && provider)
    throw invalidOption('provider', 'cannot be combined with `handler`: give one of them')
  if (given && typeof given.run !== 'function')
    throw invalidOption('handler', 'expected an object with a method run')
  if (harness && !provider) throw invalidOption('harness', 'has no effect without `provider`')
  if (keepSession && !provider) throw invalidOption('keepSession', 'has no effect without `provider`')
  const agent = provider && toAgent({ ...harness, provider }, keepSession ?? false)
  throwIfAborted(signal, 'RUNTIME_ABORTED', abortedText)
  const onInvocation = given && ((invocation: NativeInvocation) => void invoke(given, invocation))
  const server = await settle(
    native.serveRuntime({ ...spec, ...inheritance(true) }, onInvocation, agent, host),
    callSite(),
  )
  const running = new RuntimeServer(server as NativeRuntimeServer)
  if (signal?.aborted) await running.close()
  throwIfAborted(signal, 'RUNTIME_ABORTED', abortedText)
  void running.closed.then(onAbort(signal, () => void running.close()))
  return running
}

/** The agent, its options checked as the harness checks them: their paths begin with "harness." here. */
function toAgent(options: HarnessOptions, keepSession: boolean) {
  try {
    void new Harness(options)
    const limits = [new native.NativeConcurrencyLimit(options.maxConcurrent)]
    if (options.limit) limits.push(nativeLimit(options.limit))
    // The client's prompt takes the place of this one.
    const budget = options.budget && nativeBudget(options.budget)
    const agent = keepSession
      ? native.NativeAgent.kept(
          openSpec(options.provider, mergedOptions(options, undefined), undefined),
          limits,
          budget,
          onTurn,
        )
      : new native.NativeAgent(toSpec('', options, true), limits, budget, onTurn)
    onAbort(options.signal, () => agent.stop())
    return agent
  } catch (error) {
    const { code, message } = error as SheepdogError
    if (code !== 'INVALID_OPTION' || message.startsWith('provider:')) throw error
    throw new SheepdogError(code, `harness.${message}`)
  }
}

const abortedText = 'the server was not started: its abort signal was aborted'

type NativeRuntimeServer = InstanceType<typeof native.NativeRuntimeServer>

/** A runtime that is being served. It keeps this process alive until it is closed. */
export class RuntimeServer implements AsyncDisposable {
  readonly #server: NativeRuntimeServer
  /** Port that the server listens on. */
  readonly port: number
  /** Address for clients, for example `"ws://127.0.0.1:8080"`. */
  readonly url: string
  /** Resolves when the server is closed. */
  readonly closed: Promise<void>

  /** @internal */
  constructor(server: NativeRuntimeServer) {
    this.#server = server
    this.port = server.port
    this.url = server.url
    this.closed = settle<void>(server.closed())
    this.closed.catch(() => {})
  }

  /**
   * Cancels requests, finishes uploads that have begun, and closes all sockets. Resolves at once when
   * nothing runs, and within 10 seconds in any case.
   */
  async close(): Promise<void> {
    checkNoCallback('close', arguments)
    await settle<void>(this.#server.close())
  }

  /** Same as `close()`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}
