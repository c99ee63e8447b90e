// A git repository for tests, and agents of codex's words that work in it.
import { execFileSync } from 'node:child_process'
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import type { HarnessOptions } from '..'

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'repository-')))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
// Checkouts lie below it.
process.env.XDG_CACHE_HOME = join(folder, 'caches')
let counter = 0

export const git = (cwd: string, ...args: string[]) =>
  execFileSync('git', args, { cwd, encoding: 'utf8' }).trim()

/** A folder with a commit, an uncommitted change, an untracked file and an ignored one. */
export function repository(): string {
  const top = join(folder, `user-${counter++}`)
  mkdirSync(top)
  git(top, 'init', '-q')
  git(top, 'config', 'user.name', 'User')
  git(top, 'config', 'user.email', 'user@localhost')
  writeFileSync(join(top, 'kept.txt'), 'one\ntwo\nthree\n')
  writeFileSync(join(top, '.gitignore'), 'secret.env\n')
  git(top, 'add', '.')
  git(top, 'commit', '-q', '-m', 'first')
  writeFileSync(join(top, 'kept.txt'), 'one\ntwo\nthree\nuncommitted\n')
  writeFileSync(join(top, 'untracked.txt'), 'untracked\n')
  writeFileSync(join(top, 'secret.env'), 'KEY=1\n')
  return top
}

export function plainFolder(): string {
  return mkdtempSync(join(folder, 'plain-'))
}

/** All that a user would miss: files, index, refs and stash. */
export function stateOf(top: string): Record<string, string> {
  const files = readdirSync(top).filter((name) => name !== '.git')
  return {
    ...Object.fromEntries(files.map((name) => [name, readFileSync(join(top, name), 'utf8')])),
    index: git(top, 'ls-files', '--stage'),
    refs: git(top, 'for-each-ref', '--exclude=refs/sheepdog'),
    status: git(top, 'status', '--porcelain'),
    stash: git(top, 'stash', 'list'),
  }
}

export const sheepdogRefs = (top: string) =>
  git(top, 'for-each-ref', '--format=%(refname)', 'refs/sheepdog').split('\n').filter(Boolean)

/** Checkouts that are there. */
export function checkouts(): string[] {
  try {
    return readdirSync(join(folder, 'caches', 'sheepdog', 'git', 'worktrees'))
  } catch {
    return []
  }
}

/** An agent that runs this script of a shell as its work. */
export function worker(script: string): HarnessOptions {
  const begin = JSON.stringify({ type: 'thread.started', thread_id: 't-1' })
  const said = JSON.stringify({
    type: 'item.completed',
    item: { id: 'm', type: 'agent_message', text: 'Done.' },
  })
  const end = JSON.stringify({
    type: 'turn.completed',
    usage: { input_tokens: 10, cached_input_tokens: 2, output_tokens: 3 },
  })
  return {
    provider: 'codex',
    binary: [
      'sh',
      '-c',
      `echo '${begin}'; { ${script}\n} >&2 </dev/null; echo '${said}'; echo '${end}'`,
      'codex',
    ],
  }
}
