// Compiled by `npm run check`, never run: what the types say of structured answers.
import { type } from 'arktype'
import { z } from 'zod'
import { complete } from '../../entries/model.js'
import { Harness } from '../../index.js'

const schema = z.object({ name: z.string(), count: z.number().default(1) })
const call = { baseUrl: '', model: '', messages: [] }

export async function typed(harness: Harness): Promise<void> {
  const { structured } = await harness.run('x', { schema, timeoutMs: 5 })
  const name: string | undefined = structured?.name
  const count: number | undefined = structured?.count
  // @ts-expect-error: the schema has no such field
  void structured?.size

  const answer = await complete({ ...call, schema: z.toJSONSchema(schema) })
  const same: string | undefined = answer.structured?.name
  const { result } = harness.start('x', { schema: type({ tags: 'string[]' }) })
  const tags: string[] | undefined = (await result).structured?.tags

  const plain = await complete({ ...call, schema: { type: 'object' } })
  // @ts-expect-error: a JSON Schema says nothing to the compiler
  void plain.structured.name
  const none: unknown = (await harness.run('x')).structured
  void [name, count, same, tags, none]
}
