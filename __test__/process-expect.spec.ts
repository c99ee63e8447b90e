import { existsSync, mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { spawn, type RunOptions } from '../index.js'

const pty = { pty: true, stdin: 'pipe' } as const
const start = (command: string, args: string[], options: RunOptions = {}) =>
  spawn(command, args, { ...options, ...pty })
const sh = (script: string, options: RunOptions = {}) => start('sh', ['-c', script], options)

describe.runIf(process.platform === 'linux')('expect', () => {
  it('talks with python', async () => {
    await using python = start('python3', ['-i'])
    await python.expect('>>> ')
    await python.stdin.write('6 * 7\n')
    expect(await python.expect(/^(\d)(\d)(x)?$/m)).toEqual({
      match: '42',
      groups: ['4', '2', ''],
      before: '6 * 7\n',
    })
    await python.expect('>>> ')
    await python.stdin.write('exit(3)\n')
    expect((await python.result).exitCode).toBe(3)
  })

  it('talks with bash, whose prompt is full of control sequences', async () => {
    await using bash = start('bash', ['--norc', '-i'], {
      env: { PS1: '\\[\\e[32m\\]ready\\[\\e[0m\\]> ', TERM: 'xterm' },
    })
    await bash.expect(/^ready> $/m)
    await bash.stdin.write('echo $((6 * 7))\n')
    await bash.expect('\n42\n')
    await bash.expect('ready> ')
    await bash.stdin.write('exit\n')
    expect((await bash.result).stdout).toContain('\u001b[32mready')
  })

  it('talks with node', async () => {
    await using node = start(process.execPath, ['-i'], { env: { NODE_REPL_HISTORY: '' } })
    await node.expect('> ')
    await node.stdin.write('[6 * 7].join()\n')
    await node.expect("'42'\n")
    await node.expect('> ')
    await node.stdin.write('.exit\n')
    expect((await node.result).exitCode).toBe(0)
  })

  it('answers the questions of ssh-keygen, which does not echo them', async () => {
    const key = join(mkdtempSync(join(tmpdir(), 'sheepdog-everyday-')), 'key')
    await using keygen = start('ssh-keygen', ['-t', 'ed25519', '-C', 'test', '-f', key])
    await keygen.expect(/enter passphrase.*: /i)
    await keygen.stdin.write('correct horse\n')
    await keygen.expect(/enter same passphrase again: /i)
    await keygen.stdin.write('correct horse\n')
    const { before } = await keygen.expect('Your identification has been saved')
    expect(before).not.toContain('horse')
    expect(await keygen.result).toMatchObject({ ok: true })
    expect(existsSync(key) && readFileSync(key, 'utf8')).toContain('OPENSSH PRIVATE KEY')
  })

  it('says what is on the screen when nothing came in time, and waits on', async () => {
    await using running = sh("printf 'a\\033[1mb\\033[0m\\nname? '; read -r name; echo hello $name")
    await running.expect('a')
    const failed = await running.expect(/hello (.*)/, { timeoutMs: 300 }).catch((error: unknown) => error)
    expect(failed).toMatchObject({
      code: 'PROCESS_EXPECT_TIMED_OUT',
      pattern: '/hello (.*)/',
      timeoutMs: 300,
      screen: 'b\nname? ',
      message: 'sh did not print /hello (.*)/ within 300 ms: the last line is "name?"',
    })
    await running.stdin.write('Ada\n')
    expect(await running.expect(/hello (\w+)\n/)).toMatchObject({ groups: ['Ada'] })
  })

  it('puts torn sequences, characters and line ends together', async () => {
    const slow = `
      const parts = [[27], [91, 51], [49, 109, 195], [164, 27], [93, 48, 59, 120], [27, 92, 13], [10, 226, 130], [172, 10]]
      const print = () => { const part = parts.shift(); if (part) process.stdout.write(Buffer.from(part), () => setTimeout(print, 30)) }
      print()`
    await using running = start(process.execPath, ['-e', slow])
    expect(await running.expect(/€\n/)).toEqual({ match: '€\n', groups: [], before: 'ä\n' })
  })

  it('serves calls in their order, and leaves no text out', async () => {
    await using running = sh('echo one two three')
    const [one, three] = await Promise.all([running.expect('one'), running.expect(/th/g)])
    expect([one.match, three]).toEqual(['one', { match: 'th', groups: [], before: ' two ' }])
    expect((await running.expect('ree')).before).toBe('')
  })

  it('ends with the program', async () => {
    const running = sh('echo bye; exit 3', { reject: true })
    await expect(running.expect('never')).rejects.toMatchObject({
      code: 'PROCESS_EXPECT_ENDED',
      pattern: '"never"',
      screen: 'bye\n',
    })
    expect(await running.expect('bye')).toMatchObject({ match: 'bye' })
    await expect(running.result).rejects.toMatchObject({ code: 'PROCESS_FAILED' })
    const silent = spawn('sleep', ['60'], { pty: true, idleTimeoutMs: 200 })
    await expect(silent.expect('never')).rejects.toMatchObject({ code: 'PROCESS_IDLE' })
    const missing = spawn('no-such-program', { pty: true })
    await expect(missing.expect('x')).rejects.toMatchObject({ code: 'PROCESS_NOT_FOUND' })
  })

  it('is ended by a signal, and the program goes on', async () => {
    await using running = sh('read -r word; echo got $word')
    const abort = new AbortController()
    const waiting = running.expect('never', { signal: abort.signal })
    abort.abort(new Error('enough'))
    await expect(waiting).rejects.toMatchObject({ code: 'PROCESS_ABORTED', cause: { message: 'enough' } })
    await expect(running.expect('x', { signal: abort.signal })).rejects.toMatchObject({
      code: 'PROCESS_ABORTED',
    })
    await expect(running.expect('x', { timeoutMs: -1 })).rejects.toMatchObject({
      code: 'PROCESS_EXPECT_TIMED_OUT',
    })
    await running.stdin.write('it\n')
    await running.expect('got it', { timeoutMs: 0 })
  })

  it('holds no program up that nobody waits for, in bounded memory', async () => {
    await using running = sh('echo first; head -c 20000000 /dev/zero | tr "\\0" x; echo last', {
      maxOutputBytes: 4096,
    })
    await running.expect('first\n')
    expect(await running.result).toMatchObject({ ok: true, truncated: true })
    const { before } = await running.expect('last\n')
    expect(before).toMatch(/^x+$/)
    expect(before.length).toBeLessThanOrEqual(2 ** 18)
  })

  it('is refused without a terminal, beside another reader, and for a pattern that is none', async () => {
    await using without = spawn('sleep', ['60'])
    await expect(without.expect('x')).rejects.toMatchObject({ code: 'INVALID_OPTION', message: /^pty: / })
    await using read = sh('sleep 60')
    read.lines()
    await expect(read.expect('x')).rejects.toMatchObject({ code: 'PROCESS_ITERATED' })
    await using running = sh('sleep 60')
    await expect(running.expect('')).rejects.toMatchObject({ code: 'INVALID_OPTION', message: /^pattern: / })
    await expect(running.expect(42 as never)).rejects.toMatchObject({
      message: /^pattern: expected a string or/,
    })
    await expect(running.expect('x', { timeout: 1 } as never)).rejects.toMatchObject({
      message: /^timeout: no such option; did you mean timeoutMs\?/,
    })
    expect(() => running.lines()).toThrow('already being read')
  })
})
