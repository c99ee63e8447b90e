// Why a request of the runtime is not answered as it wished.

/** A request that is refused with data. */
export class Refusal extends Error {
  constructor(
    readonly rpcCode: number,
    message: string,
    readonly data?: unknown,
  ) {
    super(message)
  }
}

/** Any thrown value, as text. */
export function textOf(thrown: unknown): string {
  try {
    return thrown instanceof Error ? `${thrown.message}` : String(thrown)
  } catch {
    return 'a value without a text was thrown'
  }
}
