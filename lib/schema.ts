// Schemas as users hand them over: JSON Schemas, and the objects of validating libraries.
import { toJson } from './json'
import { invalidOption } from './error'
import { show } from './option'

/**
 * A schema of a validation library (zod, arktype, or valibot by `toStandardJsonSchema`). See
 * https://standardschema.dev.
 */
export interface StandardSchema<Output = unknown> {
  /** Marker by which libraries agree on the shape of a schema. */
  readonly '~standard': {
    /** Name of the library. */
    readonly vendor: string
    /** Types of the schema; there is no value at run time. */
    readonly types?: { readonly output: Output } | undefined
  }
}

/**
 * Type of an answer that matches this schema. It is known for a library's schema and `unknown` for a
 * plain JSON Schema.
 */
export type StructuredOf<Schema> = Schema extends {
  readonly '~standard': { readonly types?: infer Types }
}
  ? NonNullable<Types> extends { readonly output: infer Output }
    ? Output
    : unknown
  : unknown

interface Standard {
  vendor?: unknown
  validate?(value: unknown): unknown
  jsonSchema?: { input?(options: { target: string }): unknown }
}

/** Versions of JSON Schema that the core can read, best first. */
const targets = ['draft-2020-12', 'draft-07']

/** An object, or the function that some libraries' schemas are. */
export function isSchemaLike(value: unknown): value is object {
  return (
    (typeof value === 'object' && value !== null && !Array.isArray(value)) ||
    (typeof value === 'function' && standardOf(value) !== undefined)
  )
}

/**
 * The JSON Schema that an option stands for: itself, or what the library that made it says that an input has to be.
 * INVALID_OPTION for what is neither, and for a library's object that can't say: written as JSON, anything would fit it.
 */
export function schemaOf(schema: object): object {
  if (isPlain(schema)) return schema
  const standard = standardOf(schema)
  const { toJSONSchema } = schema as { toJSONSchema?: unknown }
  if (typeof standard?.jsonSchema?.input === 'function') return fromStandard(standard)
  if (typeof toJSONSchema === 'function') {
    return made('its toJSONSchema()', () => toJSONSchema.call(schema))
  }
  throw invalidOption('schema', `expected a JSON Schema, got ${origin(schema, standard)}`)
}

/**
 * An answer whose `structured` is what the library's schema makes of it; the core has checked the JSON Schema that the library
 * said. `refuse` makes the error of one that does not fit.
 */
export async function conforming<Answer extends { structured?: unknown }>(
  answer: Answer,
  schema: object | undefined,
  refuse: (message: string, problems: string[]) => Error,
): Promise<Answer> {
  if (answer.structured === undefined) return answer
  const conformed = await conform(schema, answer.structured)
  if ('value' in conformed) return { ...answer, structured: conformed.value }
  const { problems } = conformed
  throw refuse(`the answer fits the JSON Schema, but not the original schema: ${problems[0]}`, problems)
}

/** The value as the library's schema makes it (defaults, transformations, refinements), or what is wrong with it. */
async function conform(
  schema: object | undefined,
  value: unknown,
): Promise<{ value: unknown } | { problems: string[] }> {
  if (!schema || isPlain(schema)) return { value }
  const standard = standardOf(schema)
  if (typeof standard?.validate !== 'function') return { value }
  const checked = (await standard.validate(value)) as { value?: unknown; issues?: readonly Issue[] }
  return checked.issues ? { problems: checked.issues.map(told) } : { value: checked.value }
}

interface Issue {
  message: string
  path?: readonly (PropertyKey | { key: PropertyKey })[]
}

/** As the core says it: "/tags/0: ...". */
function told({ path = [], message }: Issue): string {
  const keys = path.map((part) => String(typeof part === 'object' ? part.key : part))
  return `/${keys.join('/')}: ${message}`
}

function standardOf(schema: object): Standard | undefined {
  const standard = (schema as { '~standard'?: unknown })['~standard']
  return typeof standard === 'object' && standard !== null ? standard : undefined
}

/** JSON's own kind of object. What z.toJSONSchema() makes is one, its `~standard` is hidden. */
function isPlain(schema: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(schema)
  const isLive =
    Object.keys(schema).includes('~standard') ||
    Object.values(schema).some((value) => typeof value === 'function')
  return typeof schema === 'object' && (prototype === Object.prototype || prototype === null) && !isLive
}

function fromStandard({ vendor, jsonSchema }: Standard): object {
  let failure: unknown
  for (const target of targets) {
    try {
      const schema = made("its library's jsonSchema.input()", () => jsonSchema!.input!({ target }))
      return vendor === 'zod' ? closed(schema) : schema
    } catch (error) {
      failure ??= error
    }
  }
  throw failure
}

function made(what: string, make: () => unknown): object {
  let schema: unknown
  try {
    schema = make()
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    throw Object.assign(invalidOption('schema', `${what} failed: ${problem}`), { cause: error })
  }
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) {
    throw invalidOption('schema', `${what} gave ${show(schema)}, expected an object`)
  }
  if (!isPlain(schema)) {
    throw invalidOption('schema', `expected a JSON Schema, ${what} gave an object with methods`)
  }
  return schema
}

/**
 * zod drops what an object does not name, and so says nothing of it: told that there is nothing else, models keep to it, and
 * servers can hold them to it. Not within `allOf`, whose parts would then exclude each other.
 */
function closed(schema: object): object {
  const text = toJson('schema', schema)
  if (text.includes('"allOf"')) return schema
  return JSON.parse(text, (_, part: unknown) => {
    const isOpen = (value: unknown): value is object =>
      typeof value === 'object' &&
      value !== null &&
      (value as { type?: unknown }).type === 'object' &&
      typeof (value as { properties?: unknown }).properties === 'object' &&
      !('additionalProperties' in value)
    return isOpen(part) ? { ...part, additionalProperties: false } : part
  }) as object
}

/** The kind of schema that was given instead, and the one call that converts it. */
function origin(schema: object, standard: Standard | undefined): string {
  if ('_zod' in schema) return 'a schema of a zod before 4.2: give z.toJSONSchema(schema)'
  if (standard?.vendor === 'zod') {
    return (
      'a schema of zod 3, which makes no JSON Schema: give zodToJsonSchema(schema) of the package zod-to-json-schema, ' +
      'or take zod 4.2 or newer'
    )
  }
  if (standard?.vendor === 'valibot') {
    return 'a schema of valibot: give toStandardJsonSchema(schema) of the package @valibot/to-json-schema'
  }
  if (typeof standard?.vendor === 'string') {
    return `a schema of ${standard.vendor} that cannot give its JSON Schema: convert it with its library first`
  }
  return 'an object with methods: convert it first, for example by z.toJSONSchema()'
}
