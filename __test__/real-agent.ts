// A real agent CLI against the carried model server: the table of `npm run test:agents`, for those that are small enough to be
// installed with the package's own tests.
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Harness, type ProviderName } from '..'
import { bench, cases } from '../fixtures/agent-cases.mjs'
import { startModelServer } from '../fixtures/model-server.mjs'

type Context = ReturnType<typeof bench>

export function describeAgent(provider: ProviderName): void {
  let server: Awaited<ReturnType<typeof startModelServer>>
  beforeAll(async () => {
    server = await startModelServer()
  })
  afterAll(() => server.close())

  describe(provider, () => {
    it.each(Object.entries(cases) as [string, (context: Context) => Promise<string>][])(
      '%s',
      { timeout: 180_000 },
      async (_, test) => {
        const binary = join(__dirname, '..', 'node_modules', '.bin', provider)
        const context = bench({
          provider,
          server,
          binary,
          make: (options: any) => new Harness(options),
        } as any)
        try {
          expect(await test(context)).toEqual(expect.any(String))
        } finally {
          context.close()
        }
      },
    )
  })
}
