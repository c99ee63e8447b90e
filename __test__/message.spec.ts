// What a wrong call is told: what to do instead.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Harness, run, SheepdogError, type RunOptions } from '../index.js'
import { rejection } from './copilot/peer'

describe('a message', () => {
  it('of a command line in one string shows the array', async () => {
    const { message } = await rejection(run('ls -la /tmp'))
    expect(message).toContain('run("ls", ["-la", "/tmp"])')
    expect((await rejection(run('nosuch'))).message).not.toContain('array')
  })

  it.each([
    [{ shell: true }, "run('sh', ['-c', command])"],
    [{ maxOutputBytes: 1e12 }, 'maxOutputBytes: expected an integer from 1 to 535822336'],
    [{ maxLineBytes: 2 ** 40 }, 'maxLineBytes: expected an integer from 1 to 535822336'],
  ])('of %j', async (options, told) => {
    const error = await rejection(run('true', [], options as RunOptions))
    expect(error).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringContaining(told) })
  })

  it('of a given program that is missing does not advise to install another', async () => {
    const error = await rejection(new Harness({ provider: 'codex', binary: '/nowhere/codex' }).run('x'))
    expect(error).toMatchObject({ code: 'AGENT_NOT_FOUND', command: '/nowhere/codex' })
    expect(error.message).not.toContain('npm install')
  })

  it('stands in an error that is written as JSON', () => {
    const cause = new TypeError('why')
    const error = new SheepdogError('PROCESS_IDLE', 'silent', { idleTimeoutMs: 5 }, cause)
    expect(JSON.parse(JSON.stringify(error))).toEqual({
      name: 'SheepdogError',
      message: 'silent',
      code: 'PROCESS_IDLE',
      idleTimeoutMs: 5,
      cause: { name: 'TypeError', message: 'why' },
    })
  })

  it('about the environment is a warning, once', () => {
    const script = `const { run } = require('./index.js')
      process.on('warning', (warning) => console.log(warning.name, warning.message))
      run('true').then(() => run('true'))`
    const told = execFileSync(process.execPath, ['--no-warnings', '-e', script], {
      cwd: join(__dirname, '..'),
      env: { ...process.env, SHEEPDOG_IDLE_SECONDS: 'abc' },
      encoding: 'utf8',
    })
    expect(told).toBe('SheepdogWarning SHEEPDOG_IDLE_SECONDS=abc is not a number of seconds and is ignored\n')
  })
})
