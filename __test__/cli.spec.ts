import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { displayWidth } from '../cli/width'
import { run } from '../index.js'
import { command, sheepdog } from './cli-command'

const folder = mkdtempSync(join(tmpdir(), 'sheepdog-cli-'))
afterAll(() => rmSync(folder, { recursive: true }))
const root = join(import.meta.dirname, '..')

describe('sheepdog', () => {
  it.each([[[]], [['--help']], [['-h']], [['help']]])(
    'tells a newcomer what there is with %j',
    async (args) => {
      const { status, stdout, stderr } = await sheepdog(args)
      expect(stdout).toMatch(/^Usage: sheepdog COMMAND/)
      expect(stdout).toMatch(/^ {2}run +run any program/m)
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    },
  )

  it.each([
    [['help', 'run']],
    [['run', '--help']],
    [['run', '--idle', '-h']],
    [['run', '--json', '--help', '--', 'ls']],
  ])('tells all of a command with %j', async (args) => {
    const { status, stdout } = await sheepdog(args)
    expect(stdout).toMatch(/^Usage: sheepdog run \[options\] -- COMMAND/)
    expect(stdout).toContain('--idle DURATION')
    expect(status).toBe(0)
  })

  it('has help of 80 columns with an example for each command', async () => {
    const { stdout: usage } = await sheepdog(['--help'])
    const names = [...usage.matchAll(/^ {2}([a-z]+) {2}/gm)].map(([, name]) => name!)
    expect(names.length).toBeGreaterThan(10)
    const texts = [usage]
    for (const name of names) texts.push((await sheepdog(['help', name])).stdout)
    // The table of `fleet` is still to be translated.
    const others = texts.filter((text) => !text.startsWith('Usage: sheepdog fleet'))
    expect(others.flatMap((text) => text.split('\n').filter((line) => line.length > 80))).toEqual([])
    expect(others.slice(1).filter((text) => !text.includes('\nExamples:\n  '))).toEqual([])
  })

  it('tells its version', async () => {
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    expect(await sheepdog(['--version'])).toEqual({ status: 0, stdout: `${version}\n`, stderr: '' })
  })

  it.each([
    [['rnu'], 'sheepdog: no such command: "rnu"; did you mean run? (sheepdog --help lists all)'],
    [['help', 'rnu'], 'sheepdog: no such command: "rnu"; did you mean run? (sheepdog --help lists all)'],
    [
      ['--verison'],
      'sheepdog: no such option: "--verison"; did you mean --version? (sheepdog --help lists all)',
    ],
    [['run', '--idel', '5s', '--', 'ls'], 'sheepdog run: unknown option --idel; did you mean --idle?'],
    [
      ['run', '--idle', 'soon', '--', 'ls'],
      'sheepdog run: --idle: expected a duration such as 120s, 30m, 1.5h, 500ms or off, got "soon"',
    ],
    [['run'], 'sheepdog run: which program? For example: sheepdog run -- npm test'],
    [['run', '--'], 'sheepdog run: which program? For example: sheepdog run -- npm test'],
  ])('says in one line what is wrong with %j', async (args, message) => {
    expect(await sheepdog(args)).toEqual({ status: 2, stdout: '', stderr: `${message}\n` })
  })

  it('says in one line that it is not built yet', async () => {
    mkdirSync(join(folder, 'cli'))
    copyFileSync(command, join(folder, 'cli/sheepdog.js'))
    const { exitCode, stderr } = await run(process.execPath, [join(folder, 'cli/sheepdog.js'), '--help'])
    expect({ exitCode, stderr }).toEqual({
      exitCode: 1,
      stderr: `sheepdog: not built yet: run \`npm run build\` in ${folder}\n`,
    })
  })

  it('says in one line that Node.js is too old', async () => {
    const old = join(folder, 'old.cjs')
    writeFileSync(
      old,
      `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.16.0' } })\n`,
    )
    const { exitCode, stderr } = await run(process.execPath, ['--require', old, command])
    expect({ exitCode, stderr }).toEqual({
      exitCode: 1,
      stderr: 'sheepdog: Node.js 20.17 or newer is needed, this is 20.16.0\n',
    })
  })
})

const python = (process.env.PATH ?? '').split(delimiter).some((path) => existsSync(join(path, 'python3')))

// Needs python3 for a pseudo-terminal; what is drawn is tested without one in cli-live.spec.ts.
describe.skipIf(!python)('sheepdog run on a terminal', () => {
  const onTerminal = async (columns: number, args: string[], env = {}) => {
    const terminal = join(root, 'fixtures/bin/print-in-terminal.py')
    const { stdout, exitCode } = await run(
      'python3',
      [terminal, `${columns}`, process.execPath, command, 'run', ...args],
      {
        env: { TERM: 'xterm', NO_COLOR: '1', ...env },
      },
    )
    // The live line is always the last: what is erased was one.
    const shown: string[] = []
    const rest = stdout.replace(/\r\n/g, '\n').replace(/([^\n\r]*)\r\u001b\[[JK]/g, (_, line) => {
      shown.push(line)
      return ''
    })
    return { exitCode, rest, shown: shown.filter(Boolean), stdout }
  }

  it('shows a live line that fits, takes it away before output, and leaves nothing of it behind', async () => {
    const script = `echo "${'wide 漢字 '.repeat(9)}"; sleep 1.2; echo two >&2; exit 5`
    const { rest, shown, exitCode } = await onTerminal(40, ['--', 'sh', '-c', script])
    expect(rest).toMatch(
      /^(wide 漢字 ){9}\ntwo\nsheepdog: sh exited with 5 after 1\.\d s \(2 lines, \d+ B\)\n$/,
    )
    expect(exitCode).toBe(5)
    expect(shown.some((line) => /^0:01 · sh · 1 line, \d+ B · wide/.test(line))).toBe(true)
    expect(Math.max(...shown.map(displayWidth))).toBeLessThan(40)
  })

  it('keeps JSON lines whole', async () => {
    const { rest } = await onTerminal(200, ['--json', '--', 'sh', '-c', 'echo a; sleep 0.6; echo b'])
    const lines = rest.trimEnd().split('\n')
    expect(lines.slice(0, 3).map((line) => JSON.parse(line).type)).toEqual(['line', 'line', 'result'])
    expect(lines[3]).toMatch(/^sheepdog: sh exited with 0/)
  })

  it('shows no live line when its stdout is a pipe to something that may write to the terminal itself', async () => {
    const terminal = join(root, 'fixtures/bin/print-in-terminal.py')
    const script = `'${process.execPath}' '${command}' run -- sh -c 'echo a; sleep 0.7; echo b' | cat`
    const { stdout } = await run('python3', [terminal, '80', 'sh', '-c', script], { env: { TERM: 'xterm' } })
    expect(stdout).toBe('a\r\nb\r\n')
  })

  it('uses colours unless NO_COLOR is set, and no live line on a dumb terminal', async () => {
    const colours = /\u001b\[\d+m/
    expect((await onTerminal(80, ['--', 'echo', 'x'])).stdout).not.toMatch(colours)
    expect((await onTerminal(80, ['--', 'echo', 'x'], { NO_COLOR: undefined })).stdout).toMatch(colours)
    const dumb = await onTerminal(80, ['--', 'echo', 'x'], { TERM: 'dumb' })
    expect(dumb.stdout).toBe('x\r\n')
  })
})
