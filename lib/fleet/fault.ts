// The value that a handler threw, as data that travels to the submitter, and the error that is made of it there.
import { SheepdogError, type ErrorCode } from '../error'
import { toJson } from '../json'
import { isError, plainError, plainValue } from '../plain-value'

/** Most levels of causes and of fields. */
const mostLevels = 6
const mostFields = 50
const mostItems = 20
const mostCharacters = 4000
/** Fields in which clients keep their requests, with the logins in them. */
const requests =
  /^(config|request|req|options|agent|socket|client|auth|cookies?|(set-)?cookie|authorization|(raw|request|response)?headers|requestbodyvalues)$/i
const secrets = /(password|passwd|secret|token|credentials?|api_?-?key|private_?-?key)s?$/i
const secretWords = /\b(bearer|basic)\s+[\w.~+/=-]{8,}/gi

/** The part of a thrown value that can be sent to the fleet; `facts` is JSON. */
interface Fault {
  code: string
  message: string
  facts: string
}

type Fields = Record<string, unknown>

/** Never throws: reading what a handler threw may run the handler's code. */
export function faultOf(error: unknown): Fault {
  try {
    const { name, message, code, stack: _, ...fields } = bounded(plainThrown(error), 0) as Fields
    const facts =
      name === undefined || name === 'Error' || name === 'SheepdogError'
        ? fields
        : { ...fields, errorName: name }
    return {
      code: typeof code === 'string' && code !== '' ? code : 'JOB_FAILED',
      message: typeof message === 'string' ? message : toJson('message', message ?? ''),
      facts: toJson('facts', facts),
    }
  } catch {
    return { code: 'JOB_FAILED', message: 'the handler threw a value that cannot be read', facts: '{}' }
  }
}

/** The value as an error has its fields. */
function plainThrown(value: unknown): Fields {
  if (typeof value !== 'object' || value === null) return { message: String(value) }
  // Throws when not even the message can be read: an empty one would tell nothing.
  void (value as Fields).message
  if (isError(value)) return plainError(value)
  const plain = plainValue(value)
  if (typeof (plain as Fields | null)?.message === 'string') return plain as Fields
  return { message: toJson('error', bounded(plain, 0)) }
}

function bounded(value: unknown, level: number): unknown {
  if (typeof value === 'string') {
    const words = value.replace(secretWords, '$1 [REDACTED]')
    const more = words.length - mostCharacters
    return more > 0 ? `${words.slice(0, mostCharacters)} ... (${more} more characters)` : words
  }
  if (typeof value !== 'object' || value === null) return value
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`
  if (level >= mostLevels) return '[left out]'
  if (Array.isArray(value)) return value.slice(0, mostItems).map((item) => bounded(item, level + 1))
  const fields = Object.entries(value).filter(([name]) => !requests.test(name) && !secrets.test(name))
  return Object.fromEntries(
    fields.slice(0, mostFields).map(([name, field]) => [name, bounded(field, level + 1)]),
  )
}

/** The error of a job, its code and fields as they were on the worker. */
export function errorOfFault(
  { code, message, ...facts }: { code: string; message: string; [fact: string]: unknown },
  jobId: string,
): SheepdogError {
  const { cause, ...fields } = facts
  if (Array.isArray(fields.errors)) fields.errors = fields.errors.map(asError)
  return new SheepdogError(
    code as ErrorCode,
    message,
    { ...fields, jobId } as object,
    asError(cause ?? facts.lastError),
  )
}

/** Data of an error as an error again. */
function asError(data: unknown): unknown {
  if (typeof data !== 'object' || data === null) return data
  const { name, message, code, cause, stack: _, ...fields } = data as Fields
  if (typeof message !== 'string') return data
  if (Array.isArray(fields.errors)) fields.errors = fields.errors.map(asError)
  const inner = asError(cause)
  if (typeof code === 'string' && (name === undefined || name === 'SheepdogError'))
    return new SheepdogError(code as ErrorCode, message, fields, inner)
  const error = new Error(message, inner === undefined ? undefined : { cause: inner })
  const own = { ...fields, ...(code !== undefined && { code }) }
  for (const [field, value] of Object.entries(own))
    if (!(field in error) && field !== '__proto__') (error as unknown as Fields)[field] = value
  if (typeof name === 'string' && name !== 'Error')
    Object.defineProperty(error, 'name', { value: name, configurable: true })
  return error
}
