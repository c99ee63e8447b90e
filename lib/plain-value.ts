// A value of any origin as data that JSON can hold: for errors, logs, records and the wire. Nothing in the value can make it throw.
import { types } from 'node:util'

/** Most values that are taken over: a structure that shares its parts can be exponentially larger than it looks. */
const MOST_VALUES = 100_000
const MOST_LEVELS = 100

/** Fields of an error that are not enumerable, or that only its class has. */
const HIDDEN_FIELDS = ['code', 'cause', 'errors', 'error', 'suppressed'] as const

/** The value as JSON can hold it. Bytes are base64. Parts that JSON cannot hold are named in brackets: `[circular]`, `[function save]`. */
export function plainValue(value: unknown): unknown {
  return new Walk().take(value)
}

/** The error as `plainValue` writes it: name, message, code, fields, causes and inner errors. */
export function plainError(error: object): Record<string, unknown> {
  return new Walk().takeError(error)
}

class Walk {
  /** Objects around the value under way. */
  readonly #around = new Set<object>()
  #left = MOST_VALUES

  take(value: unknown): unknown {
    switch (typeof value) {
      case 'bigint':
        return `${value}n`
      case 'number':
        return Number.isFinite(value) ? value : String(value)
      case 'symbol':
        return `[${String(value)}]`
      case 'function':
        return `[function ${text(() => value.name) || 'without a name'}]`
      case 'object':
        return value === null ? null : this.#within(value, () => this.#takeObject(value))
      default:
        return value
    }
  }

  takeError(error: object): Record<string, unknown> {
    return this.#within(error, () => this.#errorFields(error)) as Record<string, unknown>
  }

  #within(value: object, take: () => unknown): unknown {
    if (this.#around.has(value)) return '[circular]'
    if (this.#left-- <= 0 || this.#around.size >= MOST_LEVELS) return '[left out]'
    this.#around.add(value)
    try {
      return take()
    } catch (error) {
      return `[unreadable: ${text(() => (error as Error).message)}]`
    } finally {
      this.#around.delete(value)
    }
  }

  #takeObject(value: object): unknown {
    if (isError(value)) return this.#errorFields(value)
    if (Array.isArray(value)) return Array.from(value, (item) => this.take(item) ?? null)
    if (types.isUint8Array(value) || types.isDataView(value)) return base64(value)
    if (types.isTypedArray(value)) return Array.from(value as Iterable<unknown>, (item) => this.take(item))
    if (types.isAnyArrayBuffer(value)) return base64(new Uint8Array(value))
    if (types.isMap(value)) return Array.from(value, ([key, item]) => [this.take(key), this.take(item)])
    if (types.isSet(value)) return Array.from(value, (item) => this.take(item))
    if (types.isDate(value)) return Number.isNaN(value.getTime()) ? '[invalid date]' : value.toISOString()
    if (types.isRegExp(value)) return String(value)
    const { toJSON } = value as { toJSON?: unknown }
    if (typeof toJSON === 'function') {
      const json: unknown = toJSON.call(value, '')
      if (json !== value) return this.take(json)
    }
    return this.#fields(value, Object.keys(value))
  }

  #errorFields(error: object): Record<string, unknown> {
    const has = (name: string) => read(error, name) !== undefined
    const names = [...HIDDEN_FIELDS.filter(has), ...Object.keys(error)]
    return {
      name: text(() => (error as Error).name),
      message: text(() => (error as Error).message),
      ...this.#fields(error, new Set(names)),
    }
  }

  #fields(value: object, names: Iterable<string>): Record<string, unknown> {
    const fields: Record<string, unknown> = {}
    for (const name of names) {
      const field = read(value, name)
      // A plain assignment of `__proto__` would be no field.
      Object.defineProperty(fields, name, {
        value: this.take(field),
        enumerable: true,
        configurable: true,
        writable: true,
      })
    }
    return fields
  }
}

/** Most values that are looked at before a cause counts as too large to be copied with each error. */
const MOST_COPIED = 1_000

/**
 * Whether `structuredClone` takes a value, told without a copy and without a call to a getter of it: primitives, errors, plain
 * objects and lists of these. False in doubt.
 */
export function isCopied(value: unknown, seen = new Set<unknown>()): boolean {
  if (typeof value === 'function' || typeof value === 'symbol') return false
  if (typeof value !== 'object' || value === null) return true
  // A copy of an error that leads back to itself cannot be read.
  if (seen.has(value)) return !types.isNativeError(value)
  if (types.isProxy(value) || seen.add(value).size > MOST_COPIED) return false
  const holdsCopied = (names: string[]) =>
    names.every((name) => {
      const field = Object.getOwnPropertyDescriptor(value, name)
      return !field || ('value' in field && isCopied(field.value, seen))
    })
  if (types.isNativeError(value)) return holdsCopied(['cause', 'message'])
  const prototype: unknown = Object.getPrototypeOf(value)
  const isPlain = Array.isArray(value) || prototype === Object.prototype || prototype === null
  return isPlain && holdsCopied(Object.keys(value).slice(0, MOST_COPIED + 1))
}

function base64({ buffer, byteOffset, byteLength }: ArrayBufferView): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString('base64')
}

/** Errors of other realms too: each environment of jest has classes of its own. */
export function isError(value: object): value is Error {
  return types.isNativeError(value) || value instanceof Error
}

/** A field of anything: getters and proxies may throw. */
function read(from: object, name: string): unknown {
  try {
    return (from as Record<string, unknown>)[name]
  } catch (error) {
    return `[unreadable: ${text(() => (error as Error).message)}]`
  }
}

/** A text that may be anything, or throw. */
function text(read: () => unknown): string {
  try {
    return String(read())
  } catch {
    return ''
  }
}
