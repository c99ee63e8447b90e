// A stop before the program was started settles as one after it.
import { describe, expect, it } from 'vitest'
import { spawn } from '..'

describe('a program that is stopped before it runs', () => {
  it.each(['sleep', '/no/such/program'])(
    'resolves kill(), and rejects with its own code: %s',
    async (program) => {
      for (let attempt = 0; attempt < 20; attempt++) {
        const child = spawn(program, ['60'])
        const result = await child.kill()
        expect(result).toMatchObject({ command: program, args: ['60'], ok: false, straysLeft: 0, stdout: '' })
        await expect(child.result).rejects.toMatchObject({
          code: expect.stringMatching(/^PROCESS_(KILLED|NOT_FOUND)$/),
        })
        await expect(child.kill('SIGINT')).resolves.toMatchObject({ pid: result.pid })
      }
    },
  )

  it('does so with a signal that was aborted, and with a deadline that has passed', async () => {
    const aborted = spawn('true', [], { signal: AbortSignal.abort() })
    expect(await aborted.kill()).toMatchObject({ pid: 0, exitCode: null, signal: null })
    await expect(aborted.result).rejects.toMatchObject({ code: 'PROCESS_ABORTED' })
    const late = spawn('true', [], { timeoutMs: -1, encoding: 'buffer' })
    expect((await late.kill()).stdout).toEqual(new Uint8Array())
    await expect(late.result).rejects.toMatchObject({ code: 'PROCESS_TIMED_OUT' })
  })

  it('says that an option is wrong', async () => {
    const wrong = spawn('true', [], { killGraceMs: 'soon' as never })
    await expect(wrong.kill()).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })
})

describe('a program that fails', () => {
  it('says in the message what it said last on stderr', async () => {
    const script = 'printf "first\\n\\033[31mfatal: \\007no disk\\033[0m\\n\\n" >&2; exit 3'
    await expect(spawn('sh', ['-c', script], { reject: true }).result).rejects.toMatchObject({
      code: 'PROCESS_FAILED',
      message: 'sh exited with status 3: its output is in `error.result`: fatal: no disk',
    })
  })

  it('says what it said on stdout where stderr is empty', async () => {
    await expect(spawn('sh', ['-c', 'echo no lock file; exit 1'], { reject: true }).result).rejects.toThrow(
      'sh exited with status 1: its output is in `error.result`: no lock file',
    )
  })
})

describe('a terminal without `stdin: "pipe"`', () => {
  it('says so where somebody wants to type', async () => {
    const child = spawn('cat', [], { pty: true })
    expect(() => child.stdin).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
    expect(() => child.stdin).toThrow(/stdin: "pipe"/)
    await expect(child.result).resolves.toMatchObject({ ok: true })
    expect(spawn('true').stdin).toBeUndefined()
  })
})
