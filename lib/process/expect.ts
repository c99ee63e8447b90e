// Waits for what a terminal shows. The output is read all the time, so that a program that nobody waits for is not held up.
import { quoted } from '../json'
import { types } from 'node:util'
import { onAbort } from '../abort'
import { at, callSite, type CallSite } from '../call-site'
import { SheepdogError, invalidOption } from '../error'
import { onWaitedFor, timers } from '../host'
import { check, checkOptions, show } from '../option'
import { ShownText } from './shown_text'

/** Options of `expect()`. */
export interface ExpectOptions {
  /**
   * How long to wait, in milliseconds. 0 and Infinity wait as long as the program runs.
   *
   * @default 30_000
   * @throws PROCESS_EXPECT_TIMED_OUT
   */
  timeoutMs?: number
  /**
   * Ends the wait when aborted. The program goes on.
   *
   * @throws PROCESS_ABORTED, with the signal's reason as `cause`.
   */
  signal?: AbortSignal
}

/** A text that `expect()` found. */
export interface Expected {
  /** Text that matched. */
  match: string
  /** Groups of the regular expression. A group that took no part is an empty string. */
  groups: string[]
  /** Text between the match before and this one: the last 262,144 characters of it. */
  before: string
}

const DEFAULT_TIMEOUT_MS = 30_000
/** Text that nothing has matched yet; older text is dropped. */
const MOST_CHARACTERS = 2 ** 18
/** The end of that text, in an error. */
const SCREEN_CHARACTERS = 4000
const SHOWN_CHARACTERS = 80

const checks = { timeoutMs: check.timeout, signal: check.signal }

interface Waiter {
  find(text: string): { at: number; match: string; groups: string[] } | undefined
  pattern: string
  site: CallSite
  resolve(found: Expected): void
  reject(error: unknown): void
}

/** The expectations of one process, in the order of the calls. */
export class Expectations {
  readonly #command: string
  readonly #waiters: Waiter[] = []
  #text = ''
  #isToServe = false
  #end: { error?: unknown } | undefined

  constructor(command: string, chunks: AsyncIterableIterator<Uint8Array>) {
    this.#command = command
    void this.#read(chunks)
  }

  expect(pattern: unknown, options: ExpectOptions | undefined): Promise<Expected> {
    const find = finder(pattern)
    checkOptions(options, checks)
    const { timeoutMs = DEFAULT_TIMEOUT_MS, signal } = options ?? {}
    const site = callSite()
    return new Promise<Expected>((resolve, reject) => {
      let stopWaiting = () => {}
      let letGo = () => {}
      const done = () => {
        stopWaiting()
        letGo()
        const index = this.#waiters.indexOf(waiter)
        if (index >= 0) this.#waiters.splice(index, 1)
      }
      const waiter: Waiter = {
        find,
        pattern: shown(pattern),
        site,
        resolve: (found) => (done(), resolve(found)),
        reject: (error) => (done(), reject(at(error, site))),
      }
      const timedOut = () => waiter.reject(this.#timedOut(waiter.pattern, timeoutMs))
      this.#waiters.push(waiter)
      letGo = onAbort(signal, () => waiter.reject(aborted(waiter.pattern, signal)))
      if (signal?.aborted) return
      if (timeoutMs < 0) return timedOut()
      this.#serve()
      if (timeoutMs > 0 && this.#waiters.includes(waiter)) stopWaiting = onWaitedFor(timeoutMs, timedOut)
    })
  }

  async #read(chunks: AsyncIterableIterator<Uint8Array>): Promise<void> {
    const shownText = new ShownText()
    try {
      for await (const chunk of chunks) this.#add(shownText.push(chunk))
      this.#add(shownText.end())
      this.#end = {}
    } catch (error) {
      this.#add(shownText.end())
      this.#end = { error }
    }
    this.#serve()
  }

  #add(text: string): void {
    this.#text += text
    // Now and then: each cut copies the text.
    if (this.#text.length > 2 * MOST_CHARACTERS) this.#text = this.#text.slice(-MOST_CHARACTERS)
    if (this.#waiters.length === 0 || this.#isToServe) return
    // Once for all that is there: a search looks at the whole text.
    this.#isToServe = true
    timers.setImmediate(() => {
      this.#isToServe = false
      this.#serve()
    })
  }

  /** The first one is served first: its match is where the next one begins. */
  #serve(): void {
    for (let waiter = this.#waiters[0]; waiter; waiter = this.#waiters[0]) {
      const found = waiter.find(this.#text)
      if (found) {
        const { at, match, groups } = found
        const before = this.#text.slice(0, at).slice(-MOST_CHARACTERS)
        this.#text = this.#text.slice(at + match.length)
        waiter.resolve({ match, groups, before })
      } else if (this.#end) waiter.reject(this.#end.error ?? this.#ended(waiter.pattern))
      else return
    }
  }

  #timedOut(pattern: string, timeoutMs: number): SheepdogError {
    const message = `${this.#command} did not print ${pattern} within ${timeoutMs} ms: ${this.#lastLine()}`
    return new SheepdogError('PROCESS_EXPECT_TIMED_OUT', message, {
      pattern,
      timeoutMs,
      screen: this.#screen(),
    })
  }

  #ended(pattern: string): SheepdogError {
    const message = `${this.#command} ended before it printed ${pattern}: ${this.#lastLine()}`
    return new SheepdogError('PROCESS_EXPECT_ENDED', message, { pattern, screen: this.#screen() })
  }

  #screen(): string {
    return this.#text.slice(-SCREEN_CHARACTERS)
  }

  #lastLine(): string {
    const line = this.#text.trimEnd().split('\n').at(-1) ?? ''
    if (line === '') return 'nothing was printed since the last match'
    return `the last line is ${quoted(line.slice(-SHOWN_CHARACTERS))}`
  }
}

function finder(pattern: unknown): Waiter['find'] {
  if (typeof pattern === 'string') {
    check.name('pattern', pattern)
    return (text) => {
      const at = text.indexOf(pattern)
      return at < 0 ? undefined : { at, match: pattern, groups: [] }
    }
  }
  if (!types.isRegExp(pattern))
    throw invalidOption('pattern', `expected a string or a regular expression, got ${show(pattern)}`)
  // Neither flag means anything here, and both would keep a position between two searches.
  const once = new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, ''))
  return (text) => {
    const found = once.exec(text)
    if (!found) return undefined
    const [match, ...groups] = found
    return { at: found.index, match, groups: groups.map((group: string | undefined) => group ?? '') }
  }
}

function shown(pattern: unknown): string {
  return typeof pattern === 'string' ? show(pattern) : String(pattern)
}

function aborted(pattern: string, signal: AbortSignal | undefined): SheepdogError {
  const message = `the wait for ${pattern} was aborted; the program goes on`
  return new SheepdogError('PROCESS_ABORTED', message, {}, signal?.reason)
}
