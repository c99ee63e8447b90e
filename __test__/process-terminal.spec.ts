import { describe, expect, it } from 'vitest'
import { run, spawn } from '../index.js'

const node = (script: string) => ['-e', script]

describe.runIf(process.platform === 'linux')('a terminal of its own', () => {
  it('is one for the program, of the size that is asked for', async () => {
    const ask =
      'const { stdin, stdout, stderr } = process; console.log([stdin, stdout, stderr].every((one) => one.isTTY), stdout.columns, stdout.rows)'
    const asked = await run(process.execPath, node(ask), {
      pty: { columns: 99, rows: 33 },
      env: { NO_COLOR: '1' },
    })
    expect(asked).toMatchObject({ stdout: 'true 99 33\r\n', stderr: '', exitCode: 0 })
    const usual = await run(process.execPath, node(ask), { pty: true, env: { NO_COLOR: '1' } })
    expect(usual.stdout).toBe('true 80 24\r\n')
    const without = await run(process.execPath, node(ask), { pty: false, env: { NO_COLOR: '1' } })
    expect(without.stdout).toBe('false undefined undefined\n')
  })

  it('brings the lines of a program that holds them back without one', async () => {
    const slow = 'import time\nfor i in range(4):\n  print(i)\n  time.sleep(0.2)\ntime.sleep(60)'
    await using running = spawn('python3', ['-c', slow], { pty: true, idleTimeoutMs: 20_000 })
    const shown: string[] = []
    for await (const { text } of running.lines()) if (shown.push(text) === 4) break
    expect(shown).toEqual(['0', '1', '2', '3'])
  })

  it('is resized, and the program sees it', async () => {
    const script = `
      console.log('ready')
      process.stdout.on('resize', () => { console.log(process.stdout.columns + 'x' + process.stdout.rows); process.exit(0) })
      setTimeout(() => {}, 60_000)`
    const running = spawn(process.execPath, node(script), { pty: true })
    const lines = running.lines()
    expect((await lines.next()).value).toMatchObject({ text: 'ready' })
    running.resize(120, 40)
    expect((await lines.next()).value).toMatchObject({ text: '120x40' })
    expect((await running.result).exitCode).toBe(0)
    running.resize(1, 1)
  })

  it('refuses a size that is none, and a resize without one', async () => {
    for (const [pty, message] of [
      ['yes', /^pty: expected a boolean or/],
      [{ columns: 0 }, /^pty\.columns: expected an integer from 1 to 65535/],
      [{ cols: 80 }, /^pty\.cols: no such option; did you mean columns\?/],
    ] as const) {
      await expect(run('true', { pty: pty as never })).rejects.toMatchObject({
        code: 'INVALID_OPTION',
        message,
      })
    }
    await using running = spawn('sleep', ['60'])
    expect(() => running.resize(80, 24)).toThrow(/^pty: /)
    await using other = spawn('sleep', ['60'], { pty: true })
    expect(() => other.resize(80, 0)).toThrow(/^rows: /)
  })

  it.each([
    ['cat', []],
    ['python3', ['-c', 'import sys; sys.stdin.read()']],
    [process.execPath, node("process.stdin.resume().on('end', () => console.log('ended'))")],
    ['sh', []],
    ['bash', ['-i']],
  ])('without input %s reads the end of it', async (program, args) => {
    const { exitCode } = await run(program, args, { pty: true, idleTimeoutMs: 20_000 })
    expect(exitCode).toBe(0)
  })

  it('is typed into, and ended', async () => {
    await using running = spawn('python3', ['-c', "name = input('name? ')\nprint('hello', name)\ninput()"], {
      pty: true,
      stdin: 'pipe',
      idleTimeoutMs: 20_000,
    })
    const lines = running.lines()
    await running.stdin.write('Ada\n')
    const shown: string[] = []
    const rest = (async () => {
      for await (const { text } of lines) shown.push(text)
    })()
    await running.stdin.end()
    await rest
    expect(shown.join('\n')).toContain('hello Ada')
    expect(shown.join('\n')).toContain('EOFError')
  })

  it('takes input of every kind', async () => {
    const text = 'one\ntwo\n'
    async function* later() {
      yield text
    }
    for (const input of [text, Buffer.from(text), later()]) {
      const { stdout, exitCode } = await run('cat', { pty: true, input })
      expect(exitCode).toBe(0)
      // Shown as it is typed, and by the program.
      expect(stdout.match(/two\r\n/g)).toHaveLength(2)
    }
  })

  it('has bytes as well as lines', async () => {
    const running = spawn('printf', ['a\\nb'], { pty: true })
    const chunks: Uint8Array[] = []
    for await (const chunk of running.bytes()) chunks.push(chunk)
    expect(Buffer.concat(chunks).toString()).toBe('a\r\nb')
  })

  it('goes with a sandbox and with the strict level', async () => {
    const script = '[ -t 1 ] && : > /dev/tty && stty size'
    const strict = await run('sh', ['-c', script], { pty: true, containment: 'strict' }).catch(
      (error: { code: string }) => error.code,
    )
    if (strict !== 'CONTAINMENT_UNAVAILABLE') {
      expect(strict).toMatchObject({ stdout: '24 80\r\n', containment: 'pidns' })
    }
    const held = await run('sh', ['-c', script], { pty: true, sandbox: {} }).catch(
      (error: { code: string }) => error.code,
    )
    if (held !== 'SANDBOX_UNAVAILABLE') expect(held).toMatchObject({ stdout: '24 80\r\n', exitCode: 0 })
  })

  it('is named to a program that is killed for its silence', async () => {
    const silent = run('sleep', ['60'], { idleTimeoutMs: 200 })
    await expect(silent).rejects.toMatchObject({
      code: 'PROCESS_IDLE',
      message: expect.stringMatching(/`pty: true`.*PYTHONUNBUFFERED=1/),
    })
    const inOne = run('sleep', ['60'], { idleTimeoutMs: 200, pty: true })
    await expect(inOne).rejects.toMatchObject({ message: expect.not.stringContaining('PYTHON') })
  })
})
