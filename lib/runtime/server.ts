// serveRuntime(): a runtime in this process.
import type { NativeInvocation, NativeSeenTurn } from '../../native/native'
import { onAbort, throwIfAborted } from '../abort'
import { callSite } from '../call-site'
import { invalidOption, settle, SheepdogError } from '../error'
import { native } from '../native'
import { check, checkOptions } from '../option'
import { Harness, type HarnessOptions, type ProviderName } from '../harness'
import { nativeBudget } from '../harness/budget'
import { nativeLimit } from '../limit'
import { toSpec } from '../harness/request'
import { SeenTurn } from '../harness/seen_turn'
import { mergedOptions, openSpec } from '../harness/session/specification'
import { invoke, type AgentHandler } from './handler'
import { host } from './host'

/** How a runtime is served. */
export interface ServeRuntimeOptions {
  /** Answers prompts. Without it and `provider` only commands are run. */
  handler?: AgentHandler
  /** A coding agent of this machine answers prompts, through the harness. */
  provider?: ProviderName
  /** The harness's options for `provider`; what the client says goes before them. */
  harness?: Partial<HarnessOptions>
  /**
   * Keeps the agent's process, and with it the conversation, for all the prompts of a client: a session over the Agent Client
   * Protocol, closed with the client's. It holds its slot of `maxConcurrent` until then. Default false: a process a prompt.
   */
  keepSession?: boolean
  /** Default "127.0.0.1". Any address that others can reach needs a `token`. */
  host?: string
  /** Default 8080; 0 = any. */
  port?: number
  /** Clients have to send it, as a bearer token or as the query parameter `token`. */
  token?: string
  /** Origins of browsers that may connect; default none. */
  allowedOrigins?: string[]
  /** While a request runs; default 15 s. */
  heartbeatIntervalMs?: number
  /** How long the end of a session waits for artifacts; default 50 s, 55 s at most. */
  drainTimeoutMs?: number
  /** Default 1000. */
  maxSessions?: number
  /** Closes the server when aborted. */
  signal?: AbortSignal
}

const checks = {
  handler: check.object,
  provider: check.name,
  harness: check.object,
  keepSession: check.boolean,
  host: check.name,
  port: check.anyOf('a port between 0 and 65535', (path, value) => {
    if (!Number.isInteger(value) || (value as number) < 0 || (value as number) > 65535)
      throw invalidOption(path, '')
  }),
  token: check.name,
  allowedOrigins: check.strings,
  heartbeatIntervalMs: check.timeout,
  drainTimeoutMs: check.timeout,
  maxSessions: check.count,
  signal: check.signal,
}

/**
 * Serves a runtime. Resolves once connections are accepted.
 *
 * Rejects with INVALID_OPTION, also for an address that can't be listened on.
 */
export async function serveRuntime(options: ServeRuntimeOptions): Promise<RuntimeServer> {
  checkOptions(options, checks)
  const { handler: given, provider, harness, keepSession, signal, ...spec } = options ?? {}
  if (given && provider) throw invalidOption('provider', 'can not be given beside a handler')
  if (given && typeof given.run !== 'function')
    throw invalidOption('handler', 'expected an object with a method run')
  if (harness && !provider) throw invalidOption('harness', 'is of no use without provider')
  if (keepSession && !provider) throw invalidOption('keepSession', 'is of no use without provider')
  const agent = provider && toAgent({ ...harness, provider }, keepSession ?? false)
  throwIfAborted(signal, 'RUNTIME_ABORTED', abortedText)
  const onInvocation = given && ((invocation: NativeInvocation) => void invoke(given, invocation))
  const server = await settle(native.serveRuntime(spec, onInvocation, agent, host), callSite())
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

/** A turn that the core runs, as channels and spans are told of it; what the agent's environment has besides. */
function onTurn(seen: NativeSeenTurn): { name: string; value: string }[] {
  const turn = SeenTurn.start(JSON.parse(seen.facts, (_, value) => value ?? undefined))
  if (turn) turn.show(seen.turn())
  else seen.leave()
  return Object.entries(turn?.environment ?? {}).map(([name, value]) => ({ name, value }))
}

const abortedText = 'the server was not started: its abort signal was aborted'

interface NativeRuntimeServer {
  port: number
  url: string
  close(): ReturnType<InstanceType<typeof native.NativeRuntimeServer>['close']>
  closed(): ReturnType<InstanceType<typeof native.NativeRuntimeServer>['closed']>
}

/** A runtime that is being served. It keeps the process alive until it is closed. */
export class RuntimeServer implements AsyncDisposable {
  readonly #server: NativeRuntimeServer
  /** The real port, also when any was asked for. */
  readonly port: number
  /** For example "ws://127.0.0.1:8080". */
  readonly url: string
  /** Resolves when the server was closed. */
  readonly closed: Promise<void>

  /** @internal */
  constructor(server: NativeRuntimeServer) {
    this.#server = server
    this.port = server.port
    this.url = server.url
    this.closed = settle<void>(server.closed())
  }

  /** Cancels requests, finishes open uploads, closes all sockets; at once when nothing runs, within 10 s in any case. */
  async close(): Promise<void> {
    await settle<void>(this.#server.close())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}
