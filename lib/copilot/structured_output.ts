// Answers of a given shape.
import { SheepdogError } from '../error'
import type { AssistantMessageEvent } from './event'

/** A schema of a validation library that can give its JSON Schema, as zod since version 4. */
export interface ResponseSchema<TResult> {
  /** Gives the JSON Schema. */
  toJSONSchema(): object
  /** Checks and converts an answer. */
  parse(value: unknown): TResult
}

export function isResponseSchema(value: unknown): value is ResponseSchema<unknown> {
  const { toJSONSchema, parse } = (value ?? {}) as Partial<ResponseSchema<unknown>>
  return typeof toJSONSchema === 'function' && typeof parse === 'function'
}

/** `responseFormat` on the wire. */
export function responseFormatOf(schema: object): object {
  const { toJSONSchema } = schema as Partial<ResponseSchema<unknown>>
  const json = typeof toJSONSchema === 'function' ? toJSONSchema.call(schema) : schema
  return { type: 'json_schema', jsonSchema: { name: 'response', strict: true, schema: json } }
}

export function parseAnswer<T>(schema: ResponseSchema<T>, answer: AssistantMessageEvent | undefined): T {
  const facts = { errorType: 'structured_output', answer: answer?.data.content }
  if (!answer) throw new SheepdogError('SESSION_ERROR', 'The turn ended without an answer to parse', facts)
  try {
    return schema.parse(JSON.parse(answer.data.content))
  } catch (error) {
    throw new SheepdogError(
      'SESSION_ERROR',
      'The answer does not fit the schema; runtimes before 1.0.89 do not enforce it',
      facts,
      error,
    )
  }
}
