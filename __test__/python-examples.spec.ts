// The examples in Python, with the versions of examples/python/requirements.txt in a virtual environment of the cache folder.
// Without Python 3.10 or newer, or without a package registry, they are skipped with the reason; in CI that fails.
import { createHash } from 'node:crypto'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { command } from './cli-command'

const examples = join(__dirname, '..', 'examples', 'python')
const agent = join(__dirname, '..', 'fixtures', 'acp', 'agent.mjs')
const player = join(__dirname, '..', 'fixtures', 'bin', 'agent.mjs')
const folder = mkdtempSync(join(tmpdir(), 'python-examples-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const requirements = join(examples, 'requirements.txt')
const cache = process.env.XDG_CACHE_HOME || join(homedir(), '.cache')

function run(program: string, args: string[], env: Record<string, string> = {}) {
  const { status, stdout, stderr, error } = spawnSync(program, args, {
    encoding: 'utf8',
    cwd: folder,
    env: { ...process.env, ...env },
    timeout: 240_000,
  })
  return { status, stdout, stderr: error ? String(error) : stderr }
}

/** The Python of the environment, or why there is none. Made under another name first: several of these may run at once. */
function python(): { python?: string; missing?: string } {
  const words = "import sys; print('%d.%d' % sys.version_info[:2]); sys.exit(sys.version_info < (3, 10))"
  const names = ['python3.13', 'python3.12', 'python3.11', 'python3.10', 'python3']
  const found = names.find((name) => run(name, ['-c', words]).status === 0)
  if (!found) return { missing: 'there is no Python 3.10 or newer on PATH' }
  const version = run(found, ['-c', words]).stdout.trim()
  const hash = createHash('sha256')
    .update(readFileSync(requirements))
    .update(version)
    .digest('hex')
    .slice(0, 16)
  const place = join(cache, 'sheepdog-python', hash)
  const made = join(place, 'bin', 'python')
  if (existsSync(made)) return { python: made }
  mkdirSync(join(cache, 'sheepdog-python'), { recursive: true })
  const own = mkdtempSync(join(cache, 'sheepdog-python', 'new-'))
  const environment = run(found, ['-m', 'venv', own])
  const installed =
    environment.status === 0
      ? run(join(own, 'bin', 'python'), ['-m', 'pip', 'install', '--quiet', '-r', requirements])
      : environment
  if (installed.status !== 0) {
    rmSync(own, { recursive: true, force: true })
    return {
      missing: `the packages of examples/python can't be installed: ${installed.stderr.trim().split('\n').at(-1)}`,
    }
  }
  try {
    renameSync(own, place)
  } catch {
    rmSync(own, { recursive: true, force: true })
  }
  return { python: made }
}

let found: ReturnType<typeof python>
beforeAll(() => {
  found = python()
  if (found.missing) console.warn(`the examples in Python are not run: ${found.missing}`)
  // A build server that can't run them must not pass.
  if (found.missing && process.env.CI === 'true') throw new Error(found.missing)
}, 300_000)

const sheepdog = { SHEEPDOG: `${process.execPath} ${command}` }

test('a session in Python', (context) => {
  if (!found.python) return context.skip()
  const options = ['--permission', 'ask', '--binary', process.execPath, '--binary', agent]
  const ran = run(
    found.python,
    [join(examples, 'session.py'), 'gemini', 'ask echo', '--', ...options],
    sheepdog,
  )
  expect(ran).toMatchObject({
    status: 0,
    stdout: expect.stringMatching(/\[allowed: .*\][\s\S]*\[end_turn\]\n$/),
  })
})

test('a tool in Python', (context) => {
  if (!found.python) return context.skip()
  const plan = [
    { line: { type: 'thread.started', thread_id: 't-1' } },
    { line: { type: 'item.completed', item: { id: 'm', type: 'agent_message', text: 'Two tests fail.' } } },
    { line: { type: 'turn.completed', usage: { input_tokens: 10, output_tokens: 3 } } },
  ]
  // The name that the harness looks for on PATH.
  const bin = join(folder, 'bin')
  mkdirSync(bin)
  const words = [process.execPath, player, JSON.stringify(plan)].map(
    (word) => `'${word.replaceAll("'", `'\\''`)}'`,
  )
  writeFileSync(join(bin, 'codex'), `#!/bin/sh\nexec ${words.join(' ')} "$@"\n`, { mode: 0o755 })
  const env = { ...sheepdog, PATH: `${bin}:${process.env.PATH}` }
  const ran = run(
    found.python,
    [join(examples, 'tool.py'), 'codex', 'Which tests fail?', '--', '--provider', 'codex'],
    env,
  )
  expect(ran).toMatchObject({ status: 0, stdout: 'Two tests fail.\n' })
})
