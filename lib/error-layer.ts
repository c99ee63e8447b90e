// Facts that an error of any origin carries, layer by layer; what they mean is the core's business.
import type { ErrorLayerSpec } from '../native/native'

const maxLayers = 12
const maxMessageLength = 4000

/** The error, its causes, the body and the response that it carries: the outermost first. Nothing it does can throw. */
export function layersOf(error: unknown): ErrorLayerSpec[] {
  const layers: ErrorLayerSpec[] = []
  const seen = new Set<unknown>()
  const queue = [error]
  while (queue.length > 0 && layers.length < maxLayers) {
    const next = queue.shift()
    if (next === undefined || next === null || seen.has(next)) continue
    seen.add(next)
    layers.push(layerOf(next))
    if (typeof next !== 'object') continue
    const inner = [read(next, 'cause'), read(next, 'error'), read(next, 'response'), read(next, 'data')]
    const several = read(next, 'errors')
    if (Array.isArray(several)) inner.push(...several.slice(0, maxLayers))
    queue.push(
      ...inner.filter((part) => typeof part === 'object' || (part === inner[0] && typeof part === 'string')),
    )
  }
  return layers
}

function layerOf(error: unknown): ErrorLayerSpec {
  if (typeof error === 'string') return { codes: [], message: error.slice(0, maxMessageLength) }
  if (typeof error === 'number') return { codes: [], status: toStatus(error) }
  if (typeof error !== 'object' || error === null) return { codes: [] }
  const words = ['code', 'name', 'type', 'status'].map((field) => read(error, field))
  // Clients' classes tell more than the name that they all inherit.
  words.push(read(read(error, 'constructor'), 'name'))
  const numbers = ['status', 'statusCode', 'status_code', 'code'].map((field) => toStatus(read(error, field)))
  // The AI SDK's errors have them by another name.
  const headers = read(error, 'headers') ?? read(error, 'responseHeaders')
  return {
    codes: words.filter((word): word is string => typeof word === 'string'),
    status:
      numbers.find((number) => number !== undefined) ??
      toStatus(read(read(error, '$metadata'), 'httpStatusCode')),
    kind: toText(read(error, 'kind')),
    message: toText(read(error, 'message'))?.slice(0, maxMessageLength),
    retryAfter: header(headers, 'retry-after'),
    date: header(headers, 'date'),
    retryAfterMs: toNumber(read(error, 'retryAfterMs')) ?? toNumber(header(headers, 'retry-after-ms')),
  }
}

/** A field of anything: getters and proxies may throw. */
function read(from: unknown, field: string): unknown {
  try {
    return (from as Record<string, unknown> | undefined | null)?.[field]
  } catch {
    return undefined
  }
}

function toText(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

function toNumber(value: unknown): number | undefined {
  const number = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  return typeof number === 'number' && Number.isFinite(number) ? number : undefined
}

function toStatus(value: unknown): number | undefined {
  const number = toNumber(value)
  return number !== undefined && Number.isInteger(number) && number >= 400 && number < 600
    ? number
    : undefined
}

/** A header of a Headers, of a Map, or of an object whose names may be in any case. */
function header(headers: unknown, name: string): string | undefined {
  if (typeof headers !== 'object' || headers === null) return undefined
  try {
    const get = read(headers, 'get')
    if (typeof get === 'function') return toText(get.call(headers, name)) ?? undefined
    const found = Object.entries(headers).find(([other]) => other.toLowerCase() === name)?.[1]
    const value = Array.isArray(found) ? found[0] : found
    return typeof value === 'number' ? String(value) : toText(value)
  } catch {
    return undefined
  }
}
