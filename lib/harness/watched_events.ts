// The events of a turn that is watched by others too: read whether or not somebody iterates them, and never lost to a reader
// that stops early.
import type { AgentEvent } from './event'

/** As of a turn that nobody watches (crates/agents/src/harness/turn/audience.rs): so many are kept for an iterator that comes late. */
const maxKept = 1000
/** So many wait for a slow iterator before the agent has to. */
const maxWaiting = 64

export class WatchedEvents implements AsyncIterableIterator<AgentEvent> {
  readonly #ready: AgentEvent[] = []
  #waiting: ((result: IteratorResult<AgentEvent>) => void)[] = []
  #reader: 'expected' | 'here' | 'gone' = 'expected'
  #isOver = false
  #hasRoom: (() => void) | undefined
  readonly #end: () => Promise<unknown>
  /** The turn is over: what is still to come is bounded, and nobody has to wait for room. */
  #isLast = false
  /** Resolves when the last event was read. */
  readonly isRead: Promise<void>

  /** Reads from now on, whatever the reader's pace once the turn is `over`. `end`: what an iteration waits for last. */
  constructor(
    events: AsyncIterable<AgentEvent>,
    watch: (event: AgentEvent) => void,
    over: Promise<unknown>,
    end: () => Promise<unknown>,
  ) {
    this.#end = end
    this.isRead = this.#read(events, watch).catch(() => {})
    void over.then(() => {
      this.#isLast = true
      this.#hasRoom?.()
    })
  }

  /** An iterator that comes; there is one a turn. */
  [Symbol.asyncIterator](): this {
    if (this.#reader === 'expected') this.#reader = 'here'
    return this
  }

  next(): Promise<IteratorResult<AgentEvent>> {
    const value = this.#ready.shift()
    if (this.#ready.length < maxWaiting) this.#hasRoom?.()
    if (value) return Promise.resolve({ value, done: false })
    if (this.#reader === 'gone') return Promise.resolve({ value: undefined, done: true })
    if (this.#isOver) return this.#end().then(() => ({ value: undefined, done: true }))
    return new Promise((resolve) => this.#waiting.push(resolve))
  }

  return(): Promise<IteratorResult<AgentEvent>> {
    this.#leave()
    return Promise.resolve({ value: undefined, done: true })
  }

  #leave(): void {
    this.#reader = 'gone'
    this.#ready.length = 0
    this.#hasRoom?.()
    for (const resolve of this.#waiting.splice(0)) resolve({ value: undefined, done: true })
  }

  async #read(events: AsyncIterable<AgentEvent>, watch: (event: AgentEvent) => void): Promise<void> {
    try {
      for await (const event of events) {
        watch(event)
        if (this.#reader === 'gone') continue
        this.#give(event)
        if (this.#reader === 'here' && !this.#isLast && this.#ready.length >= maxWaiting)
          await new Promise<void>((resolve) => (this.#hasRoom = resolve))
      }
    } finally {
      this.#isOver = true
      // The promise that `end` returns may wait for this very read.
      for (const resolve of this.#waiting.splice(0))
        void Promise.resolve()
          .then(() => this.#end())
          .then(() => resolve({ value: undefined, done: true }))
    }
  }

  #give(event: AgentEvent): void {
    const resolve = this.#waiting.shift()
    if (resolve) resolve({ value: event, done: false })
    else this.#ready.push(event)
    // Nobody is expected any more.
    if (this.#reader === 'expected' && this.#ready.length > maxKept) this.#leave()
  }
}
