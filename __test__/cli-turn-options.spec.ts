// The flags of `sheepdog agent` beside the options of a turn, and the exit status of a wrong command line.
import { createRequire } from 'node:module'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { sheepdog } from './cli-command'

// The built modules, which the package runs, so that both lists are of one build.
const built = createRequire(import.meta.url)
const { harnessChecks, retryChecks } = built('../dist/lib/harness/request.js')
const { sandboxChecks } = built('../dist/lib/sandbox.js')
const { options } = built('../dist/cli/agent.js')
const { toTurnOptions } = built('../dist/cli/turn_options.js')
const { parseArguments } = built('../dist/cli/arguments.js')
const { flags } = built('../dist/cli/words.js')

const folder = mkdtempSync(join(tmpdir(), 'turn-options-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Options that no shell can state: objects of this process. The provider is a word of its own. */
const beyond = ['signal', 'budget', 'limit', 'maxConcurrent', 'provider']
/** These have several flags. */
const parted = ['retry', 'sandbox']
const wanted = [
  ...Object.keys(harnessChecks).filter((name) => ![...beyond, ...parted].includes(name)),
  ...Object.keys(retryChecks).map((name) => `retry.${name}`),
  ...Object.keys(sandboxChecks).map((name) => `sandbox.${name === 'require' ? 'require.landlock' : name}`),
]

it('has a flag for every option of a turn that a shell can state', () => {
  const missing = wanted.filter((name) => !Object.hasOwn(options, flags[name]?.replace('--', '') ?? ''))
  expect(missing).toEqual([])
  expect(Object.keys(options)).toContain('sandbox')
})

it('passes every one of them on', () => {
  const json = (name: string, value: unknown) => {
    writeFileSync(join(folder, name), JSON.stringify(value))
    return join(folder, name)
  }
  const values: Record<string, string> = {
    env: 'A=b',
    schema: json('schema', {}),
    prices: json('prices', { inputPerMillion: 1, outputPerMillion: 2 }),
    'mcp-servers': json('servers', [{ name: 'x', url: 'http://127.0.0.1:1/' }]),
    redact: 'PATH',
    host: 'example.com:443',
    secret: 'PATH@example.com',
    mode: 'plan=plan',
    protect: 'restore',
    landlock: '4',
  }
  const numbers = Object.keys(options).filter((name) => /^max-(turns|tokens|cost)$|^retries$/.test(name))
  for (const name of numbers) values[name] = '3'
  const words = Object.entries(options as Record<string, { type: string; value?: string }>).flatMap(
    ([name, { type, value }]) => {
      if (name === 'network' || name === 'plan') return []
      if (type === 'boolean') return [`--${name}`]
      const usual = value === 'DURATION' ? '7s' : value === 'SIZE' ? '1M' : 'word'
      return [`--${name}=${values[name] ?? usual}`]
    },
  )
  const turn = toTurnOptions(parseArguments(words, options).values)
  const at = (path: string) => path.split('.').reduce((object: any, name) => object?.[name], turn)
  expect([...wanted, 'sandbox'].filter((name) => at(name) === undefined)).toEqual([])
  expect(turn.retry).toMatchObject({ attempts: 4, baseDelayMs: 7000, afterTools: true })
  expect(turn.redact).toEqual([process.env.PATH])
})

it('a sandbox with further limits leaves the folder alone at the level "plan"', () => {
  const writes = (...words: string[]) => toTurnOptions(parseArguments(words, options).values).sandbox?.write
  expect(writes('--landlock=4')).toEqual(['.'])
  expect(writes('--landlock=4', '--plan')).toEqual([])
  expect(writes('--host=example.com', '--permission=plan', '--write=/tmp')).toEqual(['/tmp'])
})

it.each([
  [['rnu']],
  [['run', '--idel', '5s', '--', 'ls']],
  [['run', '--landlock', '0x3', '--', 'ls']],
  [['run', '--cwd', '', '--', 'ls']],
  [['agent']],
  [['agent', 'codx', 'hi']],
  [['agent', 'codex', 'hi', '--permission', 'read']],
  [['agent', 'codex', 'hi', '--max-tokens', 'many']],
  [['agent', 'codex', 'hi', '--images', 'x.png']],
  [['chat', 'codx']],
  [['serve', '--port', 'x']],
  [['query']],
  [['exec']],
  [['replay']],
  [['runs', '--older', '7d']],
  [['view', '--port', 'x']],
  [['ps', 'x']],
  [['jobs', 'sow']],
  [['fleet', 'upp']],
  [['work', '--concurrency', '0']],
  [['submit']],
  [['acp', 'codx']],
  [['mcp', '--max-agents', 'x']],
  [['completions', 'csh']],
  [['doctor', 'codx']],
])('%j ends with 2', async (args) => {
  expect(await sheepdog(args)).toMatchObject({ status: 2, stdout: '' })
})

it('shows its help when fleet stands alone', async () => {
  const { status, stdout } = await sheepdog(['fleet'])
  expect(status).toBe(0)
  expect(stdout).toMatch(/^Usage: sheepdog fleet up/)
})
