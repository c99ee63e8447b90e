// One connection as JavaScript sees it: calls go out, a queue of items comes back (crates/copilot/src/outbox.rs).
import { toJson } from '../json'
import type {
  CopilotResumeSpec,
  CopilotStarted,
  CopilotStartSpec,
  CopilotTurnSpec,
} from '../../native/native'
import { at, callSite } from '../call-site'
import { type Fault, settle, toError } from '../error'
import { LONGEST_TIMER_MS, nextTurn, timers } from '../host'
import { native } from '../native'

/** End of the runtime's process. */
export interface RuntimeExit {
  /** Exit status; null when a signal ended it. */
  exitCode: number | null
  /** Name of that signal; null when the process exited. */
  signal: string | null
  /** End of its stderr. */
  stderr: string
}

/** Messages of the runtime that are not replies. */
export interface LinkReceiver {
  onEvent(session: number, event: unknown): void
  onRequest(id: string, method: string, params: unknown): void
  onNotification(method: string, params: unknown): void
  onExit(exit: RuntimeExit): void
  onStderr(line: string): void
}

type Item =
  | [kind: 0, session: number, event: unknown]
  | [kind: 1, call: number, result: unknown]
  | [kind: 2, call: number, fault: Fault]
  | [kind: 3, id: string, method: string, params: unknown]
  | [kind: 4, method: string, params: unknown]
  | [kind: 5, exit: RuntimeExit]
  | [kind: 6, line: string]

interface Call {
  resolve: (result: never) => void
  reject: (error: Error) => void
}

/** Turns of the microtask queue between two events: what awaits one event may subscribe to the next. */
const TICKS_BETWEEN_EVENTS = 4

export class Link {
  readonly native: InstanceType<typeof native.CopilotLink>
  readonly #calls = new Map<number, Call>()
  #nextCall = 1
  #keepAlive: NodeJS.Timeout | undefined

  constructor(private readonly receiver: LinkReceiver) {
    this.native = new native.CopilotLink(() => void this.#pump())
  }

  async start(spec: CopilotStartSpec): Promise<CopilotStarted> {
    // As a child process and its pipes would, the connection keeps the program running until it is stopped.
    this.#keepAlive = timers.setInterval(() => {}, LONGEST_TIMER_MS)
    try {
      return await settle(this.native.start(spec))
    } catch (error) {
      this.#rest()
      throw error
    }
  }

  /** Ends politely; resolves with what went wrong. */
  async stop(): Promise<Error[]> {
    try {
      return (await settle(this.native.stop())).map((fault) => toError(fault))
    } finally {
      this.#rest()
    }
  }

  async kill(): Promise<void> {
    try {
      await settle(this.native.kill())
    } finally {
      this.#rest()
    }
  }

  /** A request; it is bounded by its method's own limit unless `timeoutMs` says otherwise. */
  request<T>(method: string, params: unknown, timeoutMs?: number): Promise<T> {
    return this.#call((call) => this.native.request(call, method, stringify(params), timeoutMs))
  }

  resume<T>(spec: CopilotResumeSpec): Promise<T> {
    return this.#call((call) => this.native.resume(call, spec))
  }

  send<T>(session: number, params: unknown): Promise<T> {
    return this.#call((call) => this.native.send(call, session, stringify(params)))
  }

  /** Resolves with the answer's event, or null; `onStart` gets what stops the wait and the work. */
  sendAndWait<T>(
    session: number,
    params: unknown,
    spec: CopilotTurnSpec,
    onStart: (abort: () => void) => void,
  ): Promise<T> {
    return this.#call((call) => {
      this.native.sendAndWait(call, session, stringify(params), spec)
      onStart(() => this.native.abortTurn(call))
    })
  }

  respond(id: string, result: unknown): void {
    this.native.respond(id, stringify(result))
  }

  refuse(id: string, code: number, message: string, data?: unknown): void {
    this.native.respond(id, data === undefined ? undefined : stringify(data), code, message)
  }

  #rest(): void {
    timers.clearInterval(this.#keepAlive)
    this.#keepAlive = undefined
  }

  #call<T>(start: (call: number) => void): Promise<T> {
    const site = callSite()
    return new Promise<T>((resolve, reject) => {
      const call = this.#nextCall++
      this.#calls.set(call, { resolve, reject: (error) => reject(at(error, site)) })
      try {
        start(call)
      } catch (error) {
        this.#calls.delete(call)
        reject(error as Error)
      }
    })
  }

  /** Takes batch after batch; the loop turns between two of them, and what was awaited goes on before the next. */
  async #pump(): Promise<void> {
    for (let batch = this.native.take(); batch !== null; batch = this.native.take()) {
      for (const item of parseBatch(batch)) {
        this.#deliver(item)
        // oxlint-disable-next-line typescript/await-thenable -- it is the turn of the microtasks that is awaited
        for (let tick = 0; tick < TICKS_BETWEEN_EVENTS; tick++) await undefined
      }
      await nextTurn()
    }
  }

  #deliver(item: Item): void {
    const receiver = this.receiver
    try {
      switch (item[0]) {
        case 0:
          return receiver.onEvent(item[1], item[2])
        case 1:
          return this.#take(item[1])?.resolve(item[2] as never)
        case 2:
          return this.#take(item[1])?.reject(toError(item[2]))
        case 3:
          return receiver.onRequest(item[1], item[2], item[3])
        case 4:
          return receiver.onNotification(item[1], item[2])
        case 5:
          this.#rest()
          return receiver.onExit(item[1])
        case 6:
          return receiver.onStderr(item[1])
      }
    } catch {
      // A handler that throws is its program's business; what comes after it is still delivered.
    }
  }

  #take(call: number): Call | undefined {
    const found = this.#calls.get(call)
    this.#calls.delete(call)
    return found
  }
}

function parseBatch(batch: string): Item[] {
  try {
    return JSON.parse(batch) as Item[]
  } catch {
    // The core passes on nothing that it could not read; were it to happen, the items after it must still come.
    return []
  }
}

function stringify(value: unknown): string {
  return toJson('params', value ?? null)
}
