// Checks of options at the edge: JavaScript's types. What a value means, and its default, is the core's business.
import { invalidOption } from './error'
import { suggestion } from './hint'
import { quoted } from './json'

export type Check = (path: string, value: unknown) => void

/** A check for each option. `satisfies Checks<Options>` fails to compile when an option has none. */
export type Checks<Options> = { [Name in keyof Required<Options>]: Check }

/** Options whose names the other side knows too. `rest satisfies Crossing<typeof rest, Spec>` names those that would be dropped. */
export type Crossing<Rest, Spec> = { [Name in keyof Rest]: Name extends keyof Spec ? Rest[Name] : never }

/** No options at all. `rest satisfies NothingLeft<typeof rest>` names those that were not used. */
export type NothingLeft<Rest> = { [Name in keyof Rest]: never }

/** How a wrong value is shown in a message: short, and never the inside of an object. */
export function show(value: unknown): string {
  if (typeof value === 'string') return quoted(value.length > 40 ? `${value.slice(0, 40)}...` : value)
  if (typeof value === 'number' || typeof value === 'boolean' || value === null || value === undefined)
    return `${value}`
  if (Array.isArray(value)) return 'an array'
  if (value instanceof Date && Number.isNaN(value.getTime())) return 'an invalid date'
  return typeof value === 'object' ? `an object` : `a ${typeof value}`
}

/** A value that `holds`; a message names it as `what`. */
function expected(what: string, holds: (value: unknown) => boolean): Check {
  return (path, value) => {
    if (!holds(value)) throw invalidOption(path, `expected ${what}, got ${show(value)}`)
  }
}

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** A number in a range; neither NaN nor infinite. */
function isWithin(value: unknown, least: number, most = Number.MAX_VALUE): boolean {
  return typeof value === 'number' && value >= least && value <= most
}

/** An integer in a range. */
function integer(
  least: number,
  most = Number.MAX_SAFE_INTEGER,
  what = `an integer from ${least} to ${most}`,
): Check {
  return expected(what, (value) => Number.isInteger(value) && isWithin(value, least, most))
}

/** An object with options of a table; those that are `needed` have to be there. */
function fields(table: Record<string, Check>, ...needed: string[]): Check {
  return (path, value) => {
    check.object(path, value)
    checkOptions(value, table, path)
    const missing = needed.find((name) => (value as Record<string, unknown>)[name] === undefined)
    if (missing !== undefined) throw invalidOption(`${path}.${missing}`, 'is missing')
  }
}

/** An object of names and values that all pass this check. */
function recordOf(one: Check, place = (path: string, name: string) => `${path}.${name}`): Check {
  return (path, value) => {
    check.record(path, value)
    for (const [name, item] of Object.entries(value as object)) one(place(path, name), item)
  }
}

/** An array whose items all pass this check. */
function listOf(one: Check, what = 'an array'): Check {
  return (path, value) => {
    if (!Array.isArray(value)) throw invalidOption(path, `expected ${what}, got ${show(value)}`)
    // By index: `forEach` would pass over holes.
    for (let index = 0; index < value.length; index++) one(`${path}[${index}]`, value[index])
  }
}

export const check = {
  boolean: expected('a boolean', (value) => typeof value === 'boolean'),
  function: expected('a function', (value) => typeof value === 'function'),
  object: expected('an object', isObject),
  /** An object of names and values; a Map would look empty. */
  record: expected(
    'an object of names and values',
    (value) => isObject(value) && !(Symbol.iterator in value),
  ),
  /** Any number; what it means, src/binding/option.rs says. */
  timeout: expected('a number of milliseconds', (value) => typeof value === 'number' && !Number.isNaN(value)),
  /** A finite number >= 0. */
  duration: expected('a finite number of milliseconds >= 0', (value) => isWithin(value, 0)),
  /** A finite number >= 0 of something that is no time. */
  amount: expected('a finite number >= 0', (value) => isWithin(value, 0)),
  count: integer(1, undefined, 'an integer >= 1'),
  integer,
  port: integer(0, 65_535, 'a port between 0 and 65535'),
  date: expected('a Date', (value) => value instanceof Date && !Number.isNaN(value.getTime())),
  signal: expected(
    'an AbortSignal',
    (value) =>
      isObject(value) && typeof value.aborted === 'boolean' && typeof value.addEventListener === 'function',
  ),
  string: ((path, value) => {
    if (typeof value !== 'string') throw invalidOption(path, `expected a string, got ${show(value)}`)
    if (value.includes('\0'))
      throw invalidOption(path, 'contains a NUL character, which cannot be passed to a program')
  }) as Check,
  /** A string with at least one character. */
  name: ((path, value) => {
    check.string(path, value)
    if (value === '') throw invalidOption(path, 'expected a string that is not empty')
  }) as Check,
  strings: listOf((path, value) => check.string(path, value), 'an array of strings'),
  /** Strings that are not empty. */
  names: listOf((path, value) => check.name(path, value), 'an array of strings'),
  oneOf:
    (...names: string[]): Check =>
    (path, value) => {
      if (names.includes(value as string)) return
      const hint = typeof value === 'string' ? suggestion(value, names, (name) => `"${name}"`) : ''
      throw invalidOption(
        path,
        `expected ${names.map((name) => `"${name}"`).join(' or ')}, got ${show(value)}${hint}`,
      )
    },
  expected,
  fields,
  recordOf,
  listOf,
  anyOf:
    (what: string, ...checks: Check[]): Check =>
    (path, value) => {
      for (const one of checks)
        try {
          return one(path, value)
        } catch (error) {
          // Only one item of a list is wrong.
          if ((error as Error).message.startsWith(`${path}[`)) throw error
        }
      throw invalidOption(path, `expected ${what}, got ${show(value)}`)
    },
}

/** The fields without those that are `undefined`. */
export function givenOf<T extends object>(fields: T | undefined): T {
  return Object.fromEntries(Object.entries(fields ?? {}).filter(([, value]) => value !== undefined)) as T
}

/**
 * The given fields as they are now: what the caller does with its lists and objects later changes nothing. A `schema` may be a
 * library's own object, and one that holds a function has an identity: both are taken as they are.
 */
export function snapshot<T extends object>(fields: T | undefined): T {
  const copied = Object.entries(givenOf(fields)).map(([name, value]) => [
    name,
    name === 'schema' ? value : copyOf(value, mostLevels),
  ])
  return Object.fromEntries(copied) as T
}

/** Options are not nested deeper. */
const mostLevels = 8

function copyOf(value: unknown, levels: number): unknown {
  if (levels === 0 || typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map((item: unknown) => copyOf(item, levels - 1))
  const prototype: unknown = Object.getPrototypeOf(value)
  const fields = Object.entries(value)
  const isData = prototype === Object.prototype || prototype === null
  // A field that is hidden belongs to more than data, such as an iterator.
  const isShown = Reflect.ownKeys(value).length === fields.length
  if (!isData || !isShown || fields.some(([, field]) => typeof field === 'function')) return value
  return Object.fromEntries(fields.map(([name, field]) => [name, copyOf(field, levels - 1)]))
}

/** Refuses a name that no environment variable can have. */
export function checkVariableName(path: string, name: string): void {
  if (name !== '' && !/[=\0]/.test(name)) return
  const why = 'it must not be empty or contain "=" or NUL'
  throw invalidOption(path, `invalid variable name ${show(name)}: ${why}`)
}

/** Refuses arguments that a method does not have, such as the callback of a method of Node with the same name. */
export function checkNoMore(method: string, given: ArrayLike<unknown>, most: number): void {
  if (given.length <= most) return
  const takes = most === 0 ? 'no argument' : most === 1 ? 'one argument' : `${most} arguments`
  const hint =
    typeof given[given.length - 1] === 'function' ? ': it returns a promise and takes no callback' : ''
  throw invalidOption(`${method}()`, `takes ${takes}, got ${show(given[most])} as well${hint}`)
}

/** Refuses the callback that a method of Node with the same name takes. */
export function checkNoCallback(method: string, given: ArrayLike<unknown>): void {
  if (typeof given[0] === 'function')
    throw invalidOption(`${method}()`, 'takes no callback: it returns a promise')
}

/** Names of the options of each call. */
const calls = new Map<string, ReadonlySet<string>>()

/** Makes a table of checks known as the options of a call, so that an option at another call can say where it belongs. */
export function optionsOf<Table extends Record<string, Check>>(call: string, table: Table): Table {
  calls.set(call, new Set(Object.keys(table)))
  return table
}

/** Text that names the calls with an option of this name. */
function elsewhere(name: string): string {
  const found = [...calls].filter(([, names]) => names.has(name)).map(([call]) => call)
  return found.length === 0 ? '' : ` here: it is an option of ${found.slice(0, 3).join(' and of ')}`
}

/** The own members alone, as `child_process` takes them: what somebody added to `Object.prototype` is no option. */
export function ownMembers<T extends object>(object: T): T {
  return Object.assign(Object.create(null) as T, object)
}

/**
 * Checks an options object against its table; `undefined` counts as absent, a name that is not in the table as a typo.
 * @param instead what to use in the place of options that others have
 */
export function checkOptions(
  options: unknown,
  table: Record<string, Check>,
  at = '',
  instead: Record<string, string> = {},
): void {
  if (options === undefined) return
  if (!isObject(options)) throw invalidOption(at || 'options', `expected an object, got ${show(options)}`)
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue
    const path = at ? `${at}.${name}` : name
    const one = Object.hasOwn(table, name) ? table[name] : undefined
    if (!one) {
      const hint = Object.hasOwn(instead, name)
        ? `: ${instead[name]}`
        : (at === '' && elsewhere(name)) || suggestion(name, Object.keys(table))
      throw invalidOption(path, `no such option${hint}`)
    }
    one(path, value)
  }
}
