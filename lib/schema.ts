// Schemas as users hand them over.
import { invalidOption } from './error'
import { show } from './option'

/**
 * The JSON Schema that an option stands for: itself, or what its `toJSONSchema()` makes of it. INVALID_OPTION for what is
 * neither, such as the object of a validating library, which written as JSON would be a schema that anything fits.
 */
export function schemaOf(schema: object): object {
  const { toJSONSchema } = schema as { toJSONSchema?: unknown }
  if (typeof toJSONSchema !== 'function')
    return plain(schema, 'convert it first, for example by z.toJSONSchema()')
  let made: unknown
  try {
    made = toJSONSchema.call(schema)
  } catch (error) {
    throw Object.assign(invalidOption('schema', `its toJSONSchema() failed: ${(error as Error)?.message}`), {
      cause: error,
    })
  }
  if (typeof made !== 'object' || made === null || Array.isArray(made)) {
    throw invalidOption('schema', `its toJSONSchema() gave ${show(made)}, expected an object`)
  }
  return plain(made, 'toJSONSchema() has to return a JSON Schema')
}

function plain(schema: object, advice: string): object {
  const isLive =
    '~standard' in schema ||
    typeof (schema as { then?: unknown }).then === 'function' ||
    Object.values(schema).some((value) => typeof value === 'function')
  if (isLive) throw invalidOption('schema', `expected a JSON Schema, got an object with methods: ${advice}`)
  return schema
}
