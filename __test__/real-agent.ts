// A real agent CLI against the carried model server: the table of `npm run trial -- agents`, for those that are small enough to be
// installed with the package's own tests.
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Harness, run, type ProviderName } from '..'
import { bench, cases as turnCases } from '../fixtures/agent-cases.mjs'
import { levelCases } from '../fixtures/level-cases.mjs'
import { startModelServer } from '../fixtures/model-server.mjs'
import { installNode } from '../trials/agents/install.mjs'

type Context = ReturnType<typeof bench>
type Cases = Record<string, (context: Context) => Promise<string>>

/** The short form of the cases of levels; `npm run trial -- agents` has them all. */
const levels = ['edit', 'edit, allow', 'edit, sandbox', 'auto, sandbox']
/** Ends that fixtures/streams has of every CLI, so that they are read from there: here the CLI need not be started for them. */
const recorded = ['answer', 'status 401', '500, then fine', 'stalled stream', 'cut stream', 'unknown session']
const cases: Cases = {
  ...Object.fromEntries(
    Object.entries(turnCases as unknown as Cases).filter(([name]) => !recorded.includes(name)),
  ),
  ...Object.fromEntries(levels.map((name) => [name, (levelCases as unknown as Cases)[name]!])),
}

const hasSandbox = () =>
  run('true', [], { sandbox: {} }).then(
    () => true,
    () => false,
  )

/**
 * A folder with a `node` that optimizes no code: such a CLI ends before that pays. A fifth of its processor time is optimizing
 * JavaScript, and 3 s are optimizing the WebAssembly with which qwen parses its first shell command.
 */
function nodeThatOptimizesNothing(folder: string): string {
  mkdirSync(folder)
  const script = `#!/bin/sh\nexec '${join(installNode(), 'node')}' --no-opt --liftoff-only "$@"\n`
  writeFileSync(join(folder, 'node'), script, { mode: 0o755 })
  return folder
}

export function describeAgent(provider: ProviderName): void {
  let server: Awaited<ReturnType<typeof startModelServer>>
  const shared = {}
  const folder = mkdtempSync(join(tmpdir(), 'real-agent-'))
  const nodes = nodeThatOptimizesNothing(join(folder, 'bin'))
  // Compiling such a CLI takes a third of its processor time. Node 22 keeps what it compiled.
  const compiled = join(folder, 'compiled')
  beforeAll(async () => {
    server = await startModelServer()
  })
  afterAll(() => server.close())

  describe(provider, () => {
    it.for(Object.entries(cases))('%s', async ([name, test], { skip }) => {
      if (name.includes('sandbox') && !(await hasSandbox())) skip('this kernel holds no sandbox')
      const binary = join(__dirname, '..', 'node_modules', '.bin', provider)
      const context = bench({
        provider,
        server,
        shared,
        binary,
        compiled,
        path: [nodes, process.env.PATH].join(delimiter),
        make: (options: any) => new Harness(options),
      } as any)
      try {
        expect(await test(context)).toEqual(expect.any(String))
      } finally {
        context.close()
      }
    })
  })
}
