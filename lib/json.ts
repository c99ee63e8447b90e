import { invalidOption } from './error'

/** A value that JSON can express. */
export type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue }

/**
 * A value as JSON, towards the core or a peer: the one writer. Half of a surrogate pair becomes U+FFFD, as everywhere else that
 * text is encoded: `JSON.stringify` writes it as an escape that most other languages refuse.
 *
 * @throws INVALID_OPTION at `path` for what JSON can't express, `undefined` included.
 */
export function toJson(
  path: string,
  value: unknown,
  replacer?: (key: string, value: unknown) => unknown,
): string {
  let text: string | undefined
  try {
    text = JSON.stringify(value, replacer)
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    throw Object.assign(invalidOption(path, `cannot be written as JSON: ${problem}`), { cause: error })
  }
  if (text === undefined) throw invalidOption(path, 'cannot be written as JSON')
  if (!text.includes('\\ud')) return text
  // Only halves are written as such escapes; the second branch steps over every other escape, "\\" among them.
  return text.replace(/\\(?:(ud[89a-f][0-9a-f]{2})|.)/g, (escape, half) => (half ? '\\ufffd' : escape))
}

/** Whether JSON can have such a value, at least as a part of another one that leaves it out. */
export function isValue(value: unknown): boolean {
  return value !== undefined && typeof value !== 'function' && typeof value !== 'symbol'
}

/** JSON has no Infinity: the largest number means the same to every clock, and to every schema. */
export function finite(_: string, value: unknown): unknown {
  return value === Infinity || value === -Infinity ? Math.sign(value) * Number.MAX_VALUE : value
}

/** A text in quotes, for a message. */
export function quoted(text: unknown): string {
  return JSON.stringify(text)
}
