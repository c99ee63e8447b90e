// Schemas of the validating libraries: taken, or refused with the one call that converts them.
import { toJsonSchema, toStandardJsonSchema } from '@valibot/to-json-schema'
import { type } from 'arktype'
import * as valibot from 'valibot'
import { describe, expect, it } from 'vitest'
import { z as zod46 } from 'zod'
import { z as zod3 } from 'zod-3'
import { z as zod3v4 } from 'zod-3/v4'
import { z as zod40 } from 'zod-4.0'
import { z as zod42 } from 'zod-4.2'
import { Harness } from '../index.js'
import { failure, following } from './played-agent'
import { scripted } from './scripted-model'

const value = { name: 'a', tags: ['x'] }
const turn = (schema: object, text: unknown = value) =>
  following([{ structured: text }, { structured: text }]).run('hi', { schema })
const call = (schema: object, text: unknown = value) =>
  scripted(`json=${JSON.stringify(text)}`, { schema }).call

const taken: [string, object][] = [
  ['an object of zod 4.2', zod42.object({ name: zod42.string(), tags: zod42.array(zod42.string()) })],
  ['an object of zod 4.6', zod46.object({ name: zod46.string(), tags: zod46.array(zod46.string()) })],
  ...[zod3v4, zod40, zod42, zod46].map((z, index): [string, object] => [
    `z.toJSONSchema() of zod ${['3.25/v4', '4.0', '4.2', '4.6'][index]}`,
    (z as typeof zod46).toJSONSchema((z as typeof zod46).object({ name: zod46.string() as never })),
  ]),
  ['arktype', type({ name: 'string', tags: 'string[]' })],
  [
    'toStandardJsonSchema() of valibot',
    toStandardJsonSchema(valibot.object({ name: valibot.string(), tags: valibot.array(valibot.string()) })),
  ],
  ['toJsonSchema() of valibot', toJsonSchema(valibot.object({ name: valibot.string() }))],
]

describe('a schema that is taken', () => {
  it.each(taken)('%s: a turn', async (name, schema) => {
    const fitting = name.startsWith('z.toJSONSchema') ? { name: 'a' } : value
    expect((await turn(schema, fitting)).structured).toEqual(fitting)
    expect(await failure(turn(schema, { name: 5 }))).toMatchObject({ code: 'AGENT_SCHEMA_MISMATCH' })
  })

  it.each(taken)('%s: a model call', async (name, schema) => {
    const fitting = name.startsWith('z.toJSONSchema') ? { name: 'a' } : value
    expect((await call(schema, fitting)).structured).toEqual(fitting)
    expect(await failure(call(schema, { name: 5 }))).toMatchObject({ code: 'MODEL_BAD_RESPONSE' })
  })

  it('is a default of the harness too', async () => {
    const schema = zod46.object({ name: zod46.string() })
    const harness = following([{ structured: { name: 'a' } }], { schema })
    expect((await harness.run('hi')).structured).toEqual({ name: 'a' })
  })
})

describe("what a library's schema makes of an answer", () => {
  const schema = zod46.object({
    name: zod46.string().transform((name) => name.length),
    count: zod46.number().default(7),
    even: zod46
      .number()
      .refine((number) => number % 2 === 0, 'not even')
      .optional(),
  })

  it('is the result', async () => {
    const result = await following([{ structured: { name: 'abc' } }]).run('hi', { schema })
    const structured: { name: number; count: number; even?: number } | undefined = result.structured
    expect(structured).toEqual({ name: 3, count: 7 })
    const completion = await scripted('json={"name":"abc"}').call.then(
      () => scripted('json={"name":"abc"}', { schema }).call,
    )
    expect(completion.structured).toEqual({ name: 3, count: 7 })
  })

  it('that no JSON Schema can say is told with its place', async () => {
    const odd = { name: 'abc', even: 3 }
    const error = await failure(turn(schema, odd))
    expect(error).toMatchObject({ code: 'AGENT_SCHEMA_MISMATCH', problems: ['/even: not even'] })
    expect(error.result.structured).toEqual(odd)
    expect(await failure(call(schema, odd))).toMatchObject({
      code: 'MODEL_BAD_RESPONSE',
      attempts: 1,
      problems: ['/even: not even'],
    })
  })
})

describe('a schema that is refused', () => {
  const refused: [string, object, string][] = [
    ['zod 3', zod3.object({ name: zod3.string() }), 'zodToJsonSchema(schema)'],
    ['the zod 4 within zod 3.25', zod3v4.object({}), 'give z.toJSONSchema(schema)'],
    ['zod 4.0', zod40.object({ name: zod40.string() }), 'give z.toJSONSchema(schema)'],
    ['valibot', valibot.object({}), 'give toStandardJsonSchema(schema)'],
    ['what JSON has no word for', zod46.object({ at: zod46.date() }), 'Date cannot be represented'],
  ]
  it.each(refused)('%s', async (_, schema, advice) => {
    const error = { code: 'INVALID_OPTION', message: expect.stringContaining(advice) }
    expect(() => new Harness({ provider: 'codex', schema })).toThrow(expect.objectContaining(error))
    expect(await failure(following([]).run('hi', { schema }))).toMatchObject(error)
    expect(await failure(call(schema))).toMatchObject(error)
    expect(error.message).toBeDefined()
  })
})
