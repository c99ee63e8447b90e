// Schemas as users hand them over.
import { invalidOption } from './error'

/** The JSON Schema that an option stands for: itself, or what its `toJSONSchema()` makes of it. */
export function schemaOf(schema: object): unknown {
  const { toJSONSchema } = schema as { toJSONSchema?: unknown }
  if (typeof toJSONSchema !== 'function') return schema
  try {
    return toJSONSchema.call(schema)
  } catch (error) {
    throw Object.assign(invalidOption('schema', `its toJSONSchema() failed: ${(error as Error)?.message}`), {
      cause: error,
    })
  }
}
