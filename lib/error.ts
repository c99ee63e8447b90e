// Faults of the core become JavaScript errors here, and nowhere else.
import { inspect, types } from 'node:util'
import type { Fault } from '../native/native'
import { at, type CallSite } from './call-site'
import type { Code, ErrorFacts } from './error-facts'
import { isCopied, plainError, plainValue } from './plain-value'

export type { Fault } from '../native/native'

/** The value with which every native promise resolves (src/binding/promise.rs). */
export interface Settled<T> {
  value?: T
  error?: Fault
  partial?: T
}

/** Stable name of an error, for programs. docs/errors.md lists all of them. */
export type ErrorCode = Code

/** An error with this code. Its fields hold the facts of the failure. */
export type SheepdogErrorOf<C extends ErrorCode> = {
  [Each in C]: ErrorBody & { readonly code: Each } & Readonly<ErrorFacts[Each]> &
    Lacking<Exclude<'result' | 'kind' | 'exitCode' | 'signal', keyof ErrorFacts[Each]>>
}[C]

/** Fields that can be asked for before the code is known: `error.kind === 'auth'`. */
type Lacking<Names extends string> = { readonly [Name in Names]?: undefined }

interface ErrorBody extends Error {
  readonly cause?: unknown
  /**
   * The error as data for JSON, logs and messages: name, message, `code`, all facts, causes and inner errors. It never
   * throws: what JSON cannot hold is named in brackets, as in `[circular]`.
   */
  toJSON(): Record<string, unknown>
}

/**
 * Every error of this package. `code` is a stable name (`PROCESS_IDLE`). Facts such as `exitCode` and
 * `idleTimeoutMs` are fields, which are typed once the code is known. `kind`, `result`, `exitCode` and `signal` can be read
 * before: `kind` is the reason of a failure, and `result` holds what was read before it. The message says what to do next.
 *
 * @example
 * try {
 *   await run('codex', ['exec', '-'])
 * } catch (error) {
 *   if (error instanceof SheepdogError && error.code === 'PROCESS_IDLE') console.error(error.result.stdout)
 * }
 */
export type SheepdogError = SheepdogErrorOf<ErrorCode>

/** Members of a class that extends SheepdogError. */
type AnySheepdogError = ErrorBody & { readonly code: ErrorCode }

interface SheepdogErrorConstructor {
  readonly prototype: AnySheepdogError
  [Symbol.hasInstance](value: unknown): value is SheepdogError
  new <C extends ErrorCode>(
    code: C,
    message: string,
    facts?: Partial<ErrorFacts[C]>,
    cause?: unknown,
  ): SheepdogErrorOf<C>
  /** For classes that extend it. */
  new (code: ErrorCode, message: string, facts?: object, cause?: unknown): AnySheepdogError
}

/** Members that make an error what it is: no fact has their names. */
const RESERVED = new Set([
  'name',
  'message',
  'stack',
  'cause',
  'code',
  'toJSON',
  'toString',
  'constructor',
  '__proto__',
])

export const SheepdogError = class SheepdogError extends Error {
  readonly code: string

  constructor(code: string, message: string, facts: object = {}, cause?: unknown) {
    super(message)
    if (cause !== undefined) holdCause(this, cause)
    for (const [name, fact] of Object.entries(facts))
      if (!RESERVED.has(name)) (this as Record<string, unknown>)[name] = fact
    this.code = code
  }

  toJSON(): Record<string, unknown> {
    return plainError(this)
  }
} as unknown as SheepdogErrorConstructor

// As on Error.prototype: an instance and a subclass may have a name of their own.
Object.defineProperty(SheepdogError.prototype, 'name', {
  value: 'SheepdogError',
  writable: true,
  configurable: true,
})

/**
 * Gives an error its cause. `structuredClone` and `postMessage` copy a cause that is a plain property, and throw when it holds
 * what cannot be copied. Such a cause is a property with a getter, which they leave out.
 */
function holdCause(error: Error, cause: unknown): void {
  if (isCopied(cause)) {
    Object.defineProperty(error, 'cause', { value: cause, configurable: true, writable: true })
    return
  }
  Object.defineProperties(error, {
    cause: {
      get: () => cause,
      set(this: Error, other: unknown) {
        holdCause(this, other)
      },
      configurable: true,
    },
    [inspect.custom]: { value: withPlainCause, configurable: true },
  })
}

/** `util.inspect` shows a getter as `[Getter/Setter]`: it is given a twin of the error, whose cause is a plain property. */
function withPlainCause(this: Error): object {
  const { [inspect.custom as unknown as string]: _own, ...members } = Object.getOwnPropertyDescriptors(this)
  // Node cannot print an error whose cause is a revoked proxy.
  const cause = types.isProxy(this.cause) ? plainValue(this.cause) : this.cause
  return Object.create(Object.getPrototypeOf(this) as object, {
    ...members,
    cause: { value: cause },
  }) as object
}

/** The error for a wrong option: its message begins with the option's path. */
export function invalidOption(path: string, problem: string): SheepdogErrorOf<'INVALID_OPTION'> {
  return invalidOptions(`${path}: ${problem}`)
}

/** The error for options that are wrong together, or of a call that has none: the message names them itself. */
export function invalidOptions(message: string): SheepdogErrorOf<'INVALID_OPTION'> {
  return new SheepdogError('INVALID_OPTION', message)
}

/** The value of `act`. The message of a wrong option in it begins with this path. */
export function withPath<T>(path: string, act: () => T): T {
  try {
    return act()
  } catch (error) {
    const { code, message } = error as SheepdogError
    throw code === 'INVALID_OPTION' ? invalidOptions(`${path}.${message}`) : error
  }
}

export function toError(fault: Fault, result?: unknown): SheepdogError {
  const cause = fault.cause && toError(fault.cause)
  const facts = result === undefined ? fault.facts : { ...fault.facts, result }
  return new SheepdogError<ErrorCode>(fault.code, fault.message, facts, cause)
}

/** The error, which the core could not know the cause of. One that has a cause keeps it. */
export function because<E>(error: E, code: ErrorCode, cause: unknown): E {
  if (error instanceof SheepdogError && error.code === code && error.cause === undefined) {
    holdCause(error, cause)
  }
  return error
}

/** The value of a native promise, or its error thrown, with the stack of who asked for it. */
export async function settle<T>(promise: Promise<Settled<T>>, site?: CallSite): Promise<T> {
  const settled = await promise
  if (settled.error) throw at(toError(settled.error, settled.partial), site)
  return settled.value as T
}
