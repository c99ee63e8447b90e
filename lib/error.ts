// Faults of the core become JavaScript errors here, and nowhere else.

/** An error of the addon on its way here (src/binding/error.rs). */
export interface Fault {
  code: string
  message: string
  facts?: Record<string, unknown>
  cause?: Fault
}

/** What every native promise resolves with (src/binding/promise.rs). */
export interface Settled<T> {
  value?: T
  error?: Fault
  partial?: T
}

/**
 * Every error of this package: `code` is a stable name in capitals (`PROCESS_IDLE`), the facts are fields (`exitCode`,
 * `idleTimeoutMs`, ...), and `result` holds what was read before the failure, where something ran.
 */
export class SheepdogError extends Error {
  /** Stable name of the fault, for programs. */
  readonly code: string
  declare readonly cause?: unknown;
  [fact: string]: unknown

  constructor(code: string, message: string, facts: Record<string, unknown> = {}, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    Object.assign(this, facts)
    this.code = code
  }

  override get name(): string {
    return 'SheepdogError'
  }
}

/** The error for a wrong option: its message begins with the option's path. */
export function invalidOption(path: string, problem: string): SheepdogError {
  return new SheepdogError('INVALID_OPTION', `${path}: ${problem}`)
}

export function toError(fault: Fault, result?: unknown): SheepdogError {
  const cause = fault.cause && toError(fault.cause)
  const facts = result === undefined ? fault.facts : { ...fault.facts, result }
  return new SheepdogError(fault.code, fault.message, facts, cause)
}

/** The value of a native promise, or its error thrown. */
export async function settle<T>(promise: Promise<Settled<T>>): Promise<T> {
  const settled = await promise
  if (settled.error) throw toError(settled.error, settled.partial)
  return settled.value as T
}
