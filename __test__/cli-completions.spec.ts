// Completions and manual: made of the options that the commands themselves read.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { renderManualPage } from '../scripts/manual.mjs'
import { root } from '../scripts/step.mjs'
import { command } from './cli-command'

const folder = mkdtempSync(join(tmpdir(), 'sheepdog-completions-'))
afterAll(() => rmSync(folder, { recursive: true }))
for (const name of ['recording.jsonl', 'two words.jsonl', 'two*']) writeFileSync(join(folder, name), '')

const script = (shell: string) => {
  const file = join(folder, `sheepdog.${shell}`)
  writeFileSync(file, execFileSync(process.execPath, [command, 'completions', shell]))
  return file
}
const has = (program: string) => spawnSync(program, ['--version']).error === undefined
/** Programs that read what is made. CI gets those that are missing from Debian; there, none may be left out. */
const readers = ['fish', 'zsh', 'mandoc']
if (process.env.CI && !readers.every(has)) {
  const quietly = { stdio: 'ignore', env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } } as const
  spawnSync('apt-get', ['update'], quietly)
  spawnSync('apt-get', ['install', '-y', '--no-install-recommends', ...readers], quietly)
}
const isLeftOut = (program: string) => !process.env.CI && !has(program)

/** A command line that is being typed, and some of what fits there. */
const lines: [words: string[], fits: string[], not?: string][] = [
  [['ru'], ['run']],
  [['run', '--'], ['--idle', '--cwd', '--help'], '--schema'],
  [
    ['run', '--network', ''],
    ['all', 'none'],
  ],
  [['run', '--idle', '5s', 'mkdi'], ['mkdir']],
  [
    ['agent', 'co'],
    ['codex', 'copilot'],
  ],
  [
    ['agent', '--model', 'x', 'co'],
    ['codex', 'copilot'],
  ],
  [['replay', 'codex', 'rec'], ['recording.jsonl']],
  [['jobs', '--state', 'que'], ['queued']],
  [
    ['completions', ''],
    ['bash', 'fish', 'zsh'],
  ],
  [['help', 'fl'], ['fleet']],
]

describe('sheepdog completions', () => {
  it.each(lines)('has bash complete %j', (words, fits, not) => {
    const file = script('bash')
    const typed = ['sheepdog', ...words].map((word) => `'${word}'`).join(' ')
    const driver = `source '${file}'; COMP_WORDS=(${typed}); COMP_CWORD=${words.length}; _sheepdog; printf '%s\\n' "\${COMPREPLY[@]}"`
    const { stdout, stderr } = spawnSync('bash', ['--norc', '-c', driver], { cwd: folder, encoding: 'utf8' })
    expect(stdout.trim().split('\n')).toEqual(expect.arrayContaining(fits))
    if (not) expect(stdout).not.toContain(not)
    expect(stderr).toBe('')
  })

  it('bash gets a name with spaces or a star as one', () => {
    const typed =
      'COMP_WORDS=(sheepdog replay codex two); COMP_CWORD=3; _sheepdog; printf \'<%s>\' "${COMPREPLY[@]}"'
    const driver = `source '${script('bash')}'; ${typed}`
    const { stdout } = spawnSync('bash', ['--norc', '-c', driver], { cwd: folder, encoding: 'utf8' })
    expect(stdout.match(/<.*?>/g)!.sort()).toEqual(['<two words.jsonl>', '<two*>'])
  })

  it.skipIf(isLeftOut('fish')).each(lines)('has fish complete %j', (words, fits, not) => {
    const driver = `source '${script('fish')}'; complete -C 'sheepdog ${words.join(' ')}'`
    const { stdout, stderr } = spawnSync('fish', ['--no-config', '-c', driver], {
      cwd: folder,
      encoding: 'utf8',
    })
    const found = stdout.split('\n').map((line) => line.split('\t')[0])
    expect(found).toEqual(expect.arrayContaining(fits))
    if (not) expect(found).not.toContain(not)
    expect(stderr).toBe('')
  })

  it.skipIf(isLeftOut('zsh'))('is read by zsh', () => {
    const { stderr, status } = spawnSync('zsh', ['-n', script('zsh')], { encoding: 'utf8' })
    expect({ stderr, status }).toEqual({ stderr: '', status: 0 })
  })

  it('tells a shell that it does not know which there are', () => {
    const { stderr, status } = spawnSync(process.execPath, [command, 'completions', 'tcsh'], {
      encoding: 'utf8',
    })
    expect({ stderr, status }).toEqual({
      stderr: 'sheepdog completions: expected bash, zsh or fish, got "tcsh"\n',
      status: 2,
    })
  })
})

describe('the manual', () => {
  const [[name, text]] = Object.entries(renderManualPage()) as [[string, string]]

  it('says what the commands say', () => {
    expect(readFileSync(join(root, name), 'utf8')).toBe(text)
  })

  it.skipIf(isLeftOut('mandoc'))('is what manuals are written in', () => {
    const { stdout } = spawnSync('mandoc', ['-Tlint', '-Wwarning', join(root, name)], {
      encoding: 'utf8',
    })
    // That no date is in it is on purpose: it would be another one with each build.
    expect(stdout.replace(/.*missing date.*\n/, '')).toBe('')
  })
})
