import { spawn as start } from 'node:child_process'
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { text } from 'node:stream/consumers'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { run, spawn, SheepdogError, type RunOptions } from '../index.js'

const sh = (script: string, options: RunOptions = {}) => run('sh', ['-c', script], options)
const index = join(import.meta.dirname, '../index.js')

describe('a program that fails', () => {
  it('is ok or not', async () => {
    expect((await sh('exit 0')).ok).toBe(true)
    expect((await sh('exit 3')).ok).toBe(false)
    expect((await sh('kill -TERM $$')).ok).toBe(false)
  })

  it('rejects where that is wanted, with everything it printed', async () => {
    const failed = await sh('echo out; echo err >&2; exit 3', { reject: true }).catch(
      (error: unknown) => error,
    )
    expect(failed).toBeInstanceOf(SheepdogError)
    expect(failed).toMatchObject({
      code: 'PROCESS_FAILED',
      message: 'sh exited with status 3: its output is in `error.result`: err',
      exitCode: 3,
      result: { ok: false, exitCode: 3, stdout: 'out\n', stderr: 'err\n' },
    })
    await expect(sh('kill -TERM $$', { reject: true })).rejects.toMatchObject({ signal: 'SIGTERM' })
    expect((await sh('exit 0', { reject: true })).ok).toBe(true)
  })

  it('settles the result of spawn, and no iterator', async () => {
    const running = spawn('sh', ['-c', 'echo one; exit 3'], { reject: true })
    const lines: string[] = []
    for await (const { text } of running) lines.push(text)
    expect(lines).toEqual(['one'])
    await expect(running.result).rejects.toMatchObject({ code: 'PROCESS_FAILED', exitCode: 3 })
    expect((await running.kill()).exitCode).toBe(3)
  })

  it('throws out of an iterator when it is stopped', async () => {
    const running = spawn('sleep', ['60'], { reject: true, timeoutMs: 100 })
    await expect(running.lines().next()).rejects.toMatchObject({ code: 'PROCESS_TIMED_OUT' })
  })
})

describe('the result', () => {
  it('is without the last line end where that is wanted', async () => {
    expect(await sh("printf 'a\\n\\n'; echo b >&2", { trim: true })).toMatchObject({
      stdout: 'a\n',
      stderr: 'b',
      stdoutBytes: 3,
    })
    const { stdout } = await run('echo', ['a'], { trim: true, encoding: 'buffer' })
    expect(Buffer.from(stdout).toString()).toBe('a')
    await expect(sh('echo out; exit 1', { trim: true, reject: true })).rejects.toMatchObject({
      result: { stdout: 'out' },
    })
  })
})

describe('programs of the project', () => {
  it('are found before those of PATH, from the folder of the program or another one', async () => {
    const project = mkdtempSync(join(tmpdir(), 'sheepdog-everyday-'))
    const inner = join(project, 'packages/one')
    mkdirSync(join(project, 'node_modules/.bin'), { recursive: true })
    mkdirSync(inner, { recursive: true })
    writeFileSync(join(project, 'node_modules/.bin/only-here'), '#!/bin/sh\necho "$PATH"\n', { mode: 0o755 })
    const found = await run('only-here', { cwd: inner, preferLocal: true, trim: true })
    expect(found.stdout.startsWith(`${inner}/node_modules/.bin:`)).toBe(true)
    expect(found.stdout.endsWith(`:${process.env.PATH}`)).toBe(true)
    expect((await run('only-here', { cwd: '/', preferLocal: inner })).ok).toBe(true)
    expect((await run('only-here', { cwd: inner, preferLocal: '../..' })).ok).toBe(true)
    await expect(run('only-here', { cwd: inner })).rejects.toMatchObject({ code: 'PROCESS_NOT_FOUND' })
  })
})

describe('json()', () => {
  const script = `printf '{"type":"a"}\\nnoise\\n\\n{"type":"b"}\\n[1]\\n{"torn\\n{"type":"a"}'`

  it.each([
    [undefined, 3],
    [['a'], 2],
  ])('with the types %j counts what is no object', async (types, objects) => {
    const running = spawn('sh', ['-c', script])
    let count = 0
    for await (const _ of running.json({ types })) count++
    expect([count, running.skippedLines]).toEqual([objects, 3])
  })

  it('counts for a reader that comes late', async () => {
    const running = spawn('sh', ['-c', script])
    await running.result
    expect(running.skippedLines).toBe(0)
    for await (const _ of running.json()) void _
    expect(running.skippedLines).toBe(3)
  })
})

/** A host with pipes for its stdout and stderr. */
function host(script: string) {
  const program = `const { run, spawn } = require(${JSON.stringify(index)}); (async () => { ${script} })()`
  return start(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'pipe'] })
}

async function shown(script: string): Promise<[string, string]> {
  const child = host(script)
  return Promise.all([text(child.stdout), text(child.stderr)])
}

describe('echo', () => {
  const both = JSON.stringify("printf '\\033[32mout\\033[0m\\n'; printf err >&2")

  it('shows both streams unchanged, and keeps them', async () => {
    const [stdout, stderr] = await shown(
      `const { stdout, stderr } = await run('sh', ['-c', ${both}], { echo: true }); console.log(JSON.stringify([stdout, stderr]))`,
    )
    expect(stdout).toBe(`\u001b[32mout\u001b[0m\n${JSON.stringify(['\u001b[32mout\u001b[0m\n', 'err'])}\n`)
    expect(stderr).toBe('err')
  })

  it.each([
    ['stdout', ['\u001b[32mout\u001b[0m\n', '']],
    ['stderr', ['', 'err']],
    [false, ['', '']],
  ])('shows %j alone', async (echo, expected) => {
    expect(await shown(`await run('sh', ['-c', ${both}], { echo: ${JSON.stringify(echo)} })`)).toEqual(
      expected,
    )
  })

  it('shows what an iterator is given, and a terminal', async () => {
    const [stdout] = await shown(`
      const running = spawn('sh', ['-c', 'echo one; [ -t 1 ] && echo two'], { echo: true, pty: true })
      let lines = 0
      for await (const line of running) lines++
      console.log(lines)`)
    expect(stdout).toBe('one\r\ntwo\r\n2\n')
  })

  it('shows the output while the program runs', async () => {
    const child = host(`await run('sh', ['-c', 'printf "ready? "; exec sleep 60'], { echo: true })`)
    for await (const chunk of child.stdout) {
      expect(String(chunk)).toBe('ready? ')
      break
    }
    child.kill('SIGKILL')
  })

  it('does not matter to a run whose host has lost its stdout', async () => {
    const child = host(
      `const { stdoutBytes, ok } = await run('head', ['-c', '3000000', '/dev/zero'], { echo: true }); console.error(stdoutBytes, ok)`,
    )
    child.stdout.destroy()
    expect(await text(child.stderr)).toBe('3000000 true\n')
  })

  it('leaves the JavaScript thread alone while stdout is not read', async () => {
    // The host counts the turns of its loop while the pipe is full, and says so on the other stream.
    const child = host(`
      let turns = 0
      const timer = setInterval(() => { if (++turns === 50) { console.error('turns'); clearInterval(timer) } }, 5)
      const { stdoutBytes } = await run('head', ['-c', '3000000', '/dev/zero'], { echo: 'stdout' })
      console.error(stdoutBytes)`)
    let told = ''
    for await (const chunk of child.stderr) {
      told += String(chunk)
      if (told === 'turns\n') child.stdout.resume()
    }
    expect(told).toBe('turns\n3000000\n')
  })

  it('is refused where the output is shown anyway', async () => {
    await expect(run('true', { echo: true, stdio: 'inherit' })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: /^echo: cannot be combined with `stdio: "inherit"`/,
    })
  })
})

it.each([
  [{ reject: 'yes' }, /^reject: expected a boolean/],
  [{ echo: 'out' }, /^echo: expected a boolean, "stdout" or "stderr", got "out"/],
  [{ trim: 1 }, /^trim: expected a boolean/],
  [{ preferLocal: '' }, /^preferLocal: expected a boolean or a folder/],
])('refuses %j', async (options, message) => {
  await expect(run('true', options as never)).rejects.toMatchObject({ code: 'INVALID_OPTION', message })
})
