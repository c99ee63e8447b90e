// Definitions of scripted runs: factories, and workflows as they are called since runtime 1.0.89.
import { invalidOption, invalidOptions } from '../error'
import { check } from '../option'
import type { FactoryLimits, FactoryMeta } from './factory'

/** The two names of a scripted run. */
export type RunWord = 'Factory' | 'Workflow'
interface RunDefinition {
  meta: FactoryMeta
  run: unknown
}

/** A value that stays as it is, with all that it holds. */
export type DeepReadonly<T> = T extends (infer U)[]
  ? readonly DeepReadonly<U>[]
  : T extends object
    ? { readonly [K in keyof T]: DeepReadonly<T[K]> }
    : T

/** Definitions made here, by their handles. */
const definitions = new WeakMap<object, object>()

export const isDefined = (handle: object): boolean => definitions.has(handle)

function freeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    Object.values(value).forEach(freeze)
  }
  return value
}

function cloned(meta: FactoryMeta): FactoryMeta {
  try {
    return structuredClone(meta)
  } catch (error) {
    throw invalidOption('meta', (error as Error).message)
  }
}

/** Checks a definition and gives its handle; `word` is what it is called. */
export function define(word: RunWord, definition: RunDefinition): { meta: FactoryMeta } {
  check.object('definition', definition)
  check.object('meta', definition.meta)
  check.listOf(check.object)('meta.phases', definition.meta.phases)
  const meta = freeze(cloned(definition.meta))
  checkLimits(word, meta.limits ?? {})
  const titles = new Set<string>()
  for (const { title } of meta.phases) {
    check.string('meta.phases.title', title)
    if (title.trim() === '') throw invalidOptions(`${word} phase titles must not be empty`)
    if (titles.has(title)) throw invalidOptions(`${word} phase title "${title}" is declared more than once`)
    titles.add(title)
  }
  const handle = Object.freeze({ meta })
  definitions.set(handle, { meta, run: definition.run })
  return handle
}

/** The longest that a timer can wait. */
const MAX_TIMEOUT_SECONDS = 2147483.647

function checkLimits(
  word: RunWord,
  { maxConcurrentSubagents, maxTotalSubagents, timeoutSeconds, maxAiCredits }: FactoryLimits,
): void {
  for (const [field, value] of Object.entries({ maxConcurrentSubagents, maxTotalSubagents })) {
    if (value !== undefined && !(Number.isInteger(value) && value > 0)) {
      throw invalidOptions(`${word} limit "${field}" must be a positive integer`)
    }
  }
  if (timeoutSeconds !== undefined) {
    if (!(Number.isFinite(timeoutSeconds) && timeoutSeconds > 0)) {
      throw invalidOptions(`${word} limit "timeoutSeconds" must be a positive, finite number of seconds`)
    }
    if (timeoutSeconds > MAX_TIMEOUT_SECONDS) {
      throw invalidOptions(`${word} limit "timeoutSeconds" must not exceed ${MAX_TIMEOUT_SECONDS} seconds`)
    }
  }
  if (maxAiCredits !== undefined) {
    const units = Math.round(maxAiCredits * 1e9)
    if (!(Number.isFinite(maxAiCredits) && maxAiCredits > 0 && Number.isSafeInteger(units) && units >= 1)) {
      throw invalidOptions(
        `${word} limit "maxAiCredits" must be a positive, finite number that rounds to a safe positive integer nano-AIU ceiling`,
      )
    }
  }
}
