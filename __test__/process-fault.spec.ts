// What a run fails of, and what is told of it.
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { run, spawn } from '../index.js'

const fixture = (name: string) => join(import.meta.dirname, '../fixtures/bin', name)
const sh = (script: string, options = {}) => run('sh', ['-c', script], options)

describe('a fault', () => {
  const cases: [name: string, run: () => Promise<unknown>, code: string, message: RegExp][] = [
    ['a missing program', () => run('no-such-program'), 'PROCESS_NOT_FOUND', /no-such-program/],
    ['a missing cwd', () => sh('true', { cwd: '/no/such' }), 'PROCESS_CWD_MISSING', /\/no\/such/],
    ['a directory as program', () => run('/tmp'), 'PROCESS_NOT_EXECUTABLE', /directory/],
    [
      'a file without execute permission',
      () => run(fixture('print-forever.mjs')),
      'PROCESS_NOT_EXECUTABLE',
      /permission/,
    ],
    ['a 200 KB argument', () => run('echo', ['x'.repeat(200_000)]), 'PROCESS_ARGUMENT_TOO_LONG', /input/],
    ['NUL in an argument', () => run('echo', ['a', 'b\0c']), 'INVALID_OPTION', /^args\[1\]: /],
    ['NUL in the command', () => run('a\0b'), 'INVALID_OPTION', /^command: /],
    ['an empty command', () => run(''), 'INVALID_OPTION', /^command: /],
    [
      'a command of another type',
      () => run(7 as never),
      'INVALID_OPTION',
      /^command: expected a string, got 7/,
    ],
    [
      'arguments of another type',
      () => run('echo', 'x' as never),
      'INVALID_OPTION',
      /^args: expected an array/,
    ],
    [
      'an argument of another type',
      () => run('echo', ['a', 1 as never]),
      'INVALID_OPTION',
      /^args\[1\]: expected a string/,
    ],
    [
      'a variable name with "="',
      () => sh('true', { env: { 'A=B': '1' } }),
      'INVALID_OPTION',
      /^env\["A=B"\]: /,
    ],
    [
      'a variable of another type',
      () => sh('true', { env: { A: 1 } }),
      'INVALID_OPTION',
      /^env\["A"\]: expected a string, got 1/,
    ],
    ['NUL in a variable', () => sh('true', { env: { A: '\0' } }), 'INVALID_OPTION', /^env\["A"\]: /],
    [
      'NaN',
      () => sh('true', { idleTimeoutMs: NaN }),
      'INVALID_OPTION',
      /^idleTimeoutMs: expected a number.*got NaN/,
    ],
    [
      'a duration as text',
      () => sh('true', { timeoutMs: '5s' }),
      'INVALID_OPTION',
      /^timeoutMs: expected a number.*got "5s"/,
    ],
    ['an endless grace', () => sh('true', { killGraceMs: Infinity }), 'INVALID_OPTION', /^killGraceMs: /],
    ['a negative drain', () => sh('true', { drainMs: -1 }), 'INVALID_OPTION', /^drainMs: /],
    ['a count of zero', () => sh('true', { maxOutputBytes: 0 }), 'INVALID_OPTION', /^maxOutputBytes: /],
    ['a broken count', () => sh('true', { maxLineBytes: 1.5 }), 'INVALID_OPTION', /^maxLineBytes: /],
    [
      'an unknown choice',
      () => sh('true', { strays: 'spare' }),
      'INVALID_OPTION',
      /^strays: expected "kill" or "keep"/,
    ],
    [
      'a signal that is none',
      () => sh('true', { signal: {} }),
      'INVALID_OPTION',
      /^signal: expected an AbortSignal/,
    ],
    [
      'null as options',
      () => run('true', [], null as never),
      'INVALID_OPTION',
      /^options: expected an object/,
    ],
    [
      'a misspelt option',
      () => sh('true', { idleTimeoutMS: 1 }),
      'INVALID_OPTION',
      /^idleTimeoutMS: .*did you mean idleTimeoutMs/,
    ],
    [
      'limits that nothing enforces',
      () => sh('true', { containment: 'group', maxProcesses: 5 }),
      'CONTAINMENT_UNAVAILABLE',
      /cgroup/,
    ],
  ]
  it.each(cases)('%s is a rejected promise with its own code', async (_, start, code, message) => {
    const error = await start().then(
      () => undefined,
      (error: Error & { code: string; result?: unknown }) => error,
    )
    expect(error).toBeInstanceOf(Error)
    expect(error).toMatchObject({ code, message: expect.stringMatching(message) })
    expect(error!.result).toBeUndefined()
  })

  it('never throws synchronously, and an unawaited one is not the end of the host', async () => {
    const faults: unknown[] = []
    const listener = (reason: unknown) => faults.push(reason)
    process.on('unhandledRejection', listener)
    const processes = [spawn('no-such-program'), spawn('sh', ['x'], { cwd: 3 } as never), spawn('a\0')]
    await expect(processes[0]!.started).rejects.toMatchObject({ code: 'PROCESS_NOT_FOUND' })
    await expect(processes[1]!.result).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await expect(processes[2]!.kill()).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await expect(processes[2]!.lines().next()).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await new Promise((resolve) => setImmediate(resolve))
    process.off('unhandledRejection', listener)
    expect(faults).toEqual([])
  })

  it('carries what was read before', async () => {
    const [idle, late] = await Promise.all([
      sh('echo before; sleep 60', { idleTimeoutMs: 2000 }).catch((error) => error),
      sh('echo before; sleep 60', { timeoutMs: 2000 }).catch((error) => error),
    ])
    expect(idle).toMatchObject({
      code: 'PROCESS_IDLE',
      idleTimeoutMs: 2000,
      result: { stdout: 'before\n', signal: 'SIGKILL' },
    })
    expect(late).toMatchObject({
      code: 'PROCESS_TIMED_OUT',
      timeoutMs: 2000,
      result: { stdout: 'before\n', signal: 'SIGTERM' },
    })
  })
})

describe('the idle limit of the environment', () => {
  const names = ['SHEEPDOG_IDLE_SECONDS', 'AGENTFIELD_HARNESS_IDLE_SECONDS'] as const
  afterEach(() => names.forEach((name) => delete process.env[name]))

  it.each([
    [{ SHEEPDOG_IDLE_SECONDS: '0.2' }, 200],
    [{ AGENTFIELD_HARNESS_IDLE_SECONDS: '0.3' }, 300],
    [{ SHEEPDOG_IDLE_SECONDS: '0.2', AGENTFIELD_HARNESS_IDLE_SECONDS: '9' }, 200],
    [{ SHEEPDOG_IDLE_SECONDS: 'soon', AGENTFIELD_HARNESS_IDLE_SECONDS: '0.3' }, 300],
    [{ SHEEPDOG_IDLE_SECONDS: '', AGENTFIELD_HARNESS_IDLE_SECONDS: '0.3' }, 300],
  ])('%o is %d ms', async (variables, idleTimeoutMs) => {
    Object.assign(process.env, variables)
    await expect(sh('sleep 60')).rejects.toMatchObject({ code: 'PROCESS_IDLE', idleTimeoutMs })
    expect((await sh('sleep 0.5; echo own', { idleTimeoutMs: 5000 })).stdout).toBe('own\n')
  })
})
