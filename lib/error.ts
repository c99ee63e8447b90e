// Faults of the core become JavaScript errors here, and nowhere else.
import type { Fault } from '../native/native'
import { at, type CallSite } from './call-site'
import type { Code, ErrorFacts } from './error-facts'

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
    Lacking<Exclude<'result' | 'kind', keyof ErrorFacts[Each]>>
}[C]

/** Fields that can be asked for before the code is known: `error.kind === 'auth'`. */
type Lacking<Names extends string> = { readonly [Name in Names]?: undefined }

interface ErrorBody extends Error {
  readonly name: 'SheepdogError'
  readonly cause?: unknown
  /** The error as an object for JSON: `code`, `message` and all facts. */
  toJSON(): Record<string, unknown>
}

/**
 * Every error of this package. `code` is a stable name (`PROCESS_IDLE`). Facts such as `exitCode` and
 * `idleTimeoutMs` are fields, which are typed once the code is known. `kind` and `result` can be read
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

interface SheepdogErrorConstructor {
  readonly prototype: SheepdogError
  new <C extends ErrorCode>(
    code: C,
    message: string,
    facts?: Partial<ErrorFacts[C]>,
    cause?: unknown,
  ): SheepdogErrorOf<C>
}

export const SheepdogError = class SheepdogError extends Error {
  readonly code: string

  constructor(code: string, message: string, facts: object = {}, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    Object.assign(this, facts)
    this.code = code
  }

  override get name(): string {
    return 'SheepdogError'
  }

  toJSON(): Record<string, unknown> {
    const cause = this.cause === undefined ? {} : { cause: readable(this.cause) }
    return { name: this.name, message: this.message, ...Object.fromEntries(Object.entries(this)), ...cause }
  }
} as unknown as SheepdogErrorConstructor

/** A cause as JSON has it: an error of another origin would be `{}`. */
function readable(cause: unknown): unknown {
  if (!(cause instanceof Error) || 'toJSON' in cause) return cause
  return { name: cause.name, message: cause.message, ...Object.fromEntries(Object.entries(cause)) }
}

/** The error for a wrong option: its message begins with the option's path. */
export function invalidOption(path: string, problem: string): SheepdogErrorOf<'INVALID_OPTION'> {
  return new SheepdogError('INVALID_OPTION', `${path}: ${problem}`)
}

export function toError(fault: Fault, result?: unknown): SheepdogError {
  const cause = fault.cause && toError(fault.cause)
  const facts = result === undefined ? fault.facts : { ...fault.facts, result }
  return new SheepdogError<ErrorCode>(fault.code, fault.message, facts, cause)
}

/** The error, which the core could not know the cause of. One that has a cause keeps it. */
export function because<E>(error: E, code: ErrorCode, cause: unknown): E {
  if (error instanceof SheepdogError && error.code === code && error.cause === undefined) {
    Object.defineProperty(error, 'cause', { value: cause, configurable: true, writable: true })
  }
  return error
}

/** The value of a native promise, or its error thrown, with the stack of who asked for it. */
export async function settle<T>(promise: Promise<Settled<T>>, site?: CallSite): Promise<T> {
  const settled = await promise
  if (settled.error) throw at(toError(settled.error, settled.partial), site)
  return settled.value as T
}
