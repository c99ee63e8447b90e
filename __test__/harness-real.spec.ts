// Two real agent CLIs against the carried model server: the table of `npm run test:agents`, for those that are small enough to
// be installed with the package's own tests.
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Harness } from '..'
import { bench, cases } from '../fixtures/agent-cases.mjs'
import { startModelServer } from '../fixtures/model-server.mjs'

let server: Awaited<ReturnType<typeof startModelServer>>
beforeAll(async () => {
  server = await startModelServer()
})
afterAll(() => server.close())

describe.each(['qwen', 'pi'])('%s', (provider) => {
  it.each(Object.keys(cases))('%s', { timeout: 180_000 }, async (name) => {
    const binary = join(__dirname, '..', 'node_modules', '.bin', provider)
    const context = bench({ provider, server, binary, make: (options: any) => new Harness(options) })
    try {
      expect(await (cases as any)[name](context)).toEqual(expect.any(String))
    } finally {
      context.close()
    }
  })
})
