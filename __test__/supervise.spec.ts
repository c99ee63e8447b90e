// Programs that are started again: retry of run(), and supervise().
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import {
  run,
  spawn,
  supervise,
  type RunningProcess,
  type SupervisedEvent,
  type SuperviseOptions,
} from '../index.js'
import { rejection } from './copilot/peer'

const folder = mkdtempSync(join(tmpdir(), 'sheepdog-supervise-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let files = 0
/** A script that counts its runs in a file, and what it does from run to run. */
function counting(...ways: string[]) {
  const file = join(folder, `${files++}`)
  const script = ways.map((way, at) => `if [ $(wc -l < ${file}) -le ${at + 1} ]; then ${way}; fi`).join('\n')
  return {
    args: ['-c', `echo run >> ${file}\n${script}\nexit 0`],
    runs: () => (existsSync(file) ? readFileSync(file, 'utf8').split('\n').length - 1 : 0),
  }
}

const fast = { minDelayMs: 1, maxDelayMs: 5 }
const sh = (args: string[], restart: SuperviseOptions['restart'] = {}, options: SuperviseOptions = {}) =>
  supervise('sh', args, { ...options, restart: { ...fast, ...restart } })

async function eventsOf(events: AsyncIterable<SupervisedEvent>): Promise<string[]> {
  const seen: string[] = []
  for await (const event of events) seen.push(event.type === 'ended' ? `ended: ${event.reason}` : event.type)
  return seen
}

describe('retry', () => {
  it('runs a failing program again, and says how often', async () => {
    const { args, runs } = counting('exit 1', 'kill -9 $$')
    expect(await run('sh', args, { retry: { attempts: 5, ...fast } })).toMatchObject({
      ok: true,
      attempts: 3,
    })
    expect(runs()).toBe(3)
  })

  it('gives the last end when the attempts are used up', async () => {
    const { args, runs } = counting('exit 1', 'exit 2', 'exit 3')
    expect(await run('sh', args, { retry: { attempts: 2, ...fast } })).toMatchObject({
      exitCode: 2,
      attempts: 2,
    })
    const again = counting('exit 1', 'exit 2')
    const error = await rejection(run('sh', again.args, { reject: true, retry: { attempts: 2, ...fast } }))
    expect(error).toMatchObject({ code: 'PROCESS_FAILED', exitCode: 2, result: { attempts: 2 } })
    expect([runs(), again.runs()]).toEqual([2, 2])
  })

  it('runs again what was asked for, whatever became of the arguments and the options since', async () => {
    const input = join(folder, 'input')
    writeFileSync(input, 'typed\n')
    for (const pty of [false, true]) {
      const { args } = counting('exit 1', 'exit 1')
      const asked = ['-c', `read line; echo "$line $WORD"; ${args[1]}`]
      const env = { WORD: 'first' }
      const options = { pty, env, input: { file: input }, retry: { attempts: 3, ...fast } }
      const running = run('sh', asked, options)
      asked[1] = 'echo another'
      env.WORD = 'second'
      const { stdout, attempts } = await running
      expect([attempts, stdout]).toEqual([3, expect.stringContaining('typed first')])
    }
  })

  it('is for the ends that it names', async () => {
    const silent = counting('sleep 60')
    const options = { idleTimeoutMs: 200, retry: { attempts: 2, ...fast } }
    expect(await run('sh', silent.args, options)).toMatchObject({ ok: true, attempts: 2 })
    const slow = counting('sleep 60')
    const error = await rejection(run('sh', slow.args, { timeoutMs: 200, retry: { attempts: 3, ...fast } }))
    expect(error).toMatchObject({ code: 'PROCESS_TIMED_OUT', result: { attempts: 1 } })
    const late = counting('sleep 60')
    const retry = { attempts: 3, on: ['timeout'] as const, ...fast }
    expect(await run('sh', late.args, { timeoutMs: 500, retry })).toMatchObject({ ok: true, attempts: 2 })
    expect(await rejection(run('no-such-program', { retry: 3 }))).toMatchObject({ code: 'PROCESS_NOT_FOUND' })
  })

  it('ends with its signal, in a pause too', async () => {
    const { args } = counting('exit 1')
    const abort = new AbortController()
    const running = run('sh', args, { signal: abort.signal, retry: { attempts: 2, minDelayMs: 600_000 } })
    const seen = spawn('sh', ['-c', `until [ -e ${join(folder, `${files - 1}`)} ]; do sleep 0.01; done`])
    await seen.result
    abort.abort('enough')
    expect(await rejection(running)).toMatchObject({ code: 'PROCESS_ABORTED', cause: 'enough' })
  })

  it.each([
    [{ retry: 0 }, 'retry: '],
    [{ retry: {} }, 'retry.attempts: '],
    [{ retry: { attempts: 2, on: ['idel'] } }, 'retry.on[0]: '],
    [{ retry: 2, input: ['text'] }, 'input: '],
  ])('refuses %j', async (options, words) => {
    const error = await rejection(run('true', options as object))
    expect(error).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringContaining(words) })
    expect(await rejection(spawn('true', { retry: 2 }).result)).toMatchObject({ code: 'INVALID_OPTION' })
  })
})

describe('supervise()', () => {
  it('starts a program again until it ends well', async () => {
    const { args, runs } = counting('exit 1', 'kill -9 $$')
    const server = sh(args)
    const events = eventsOf(server.events())
    await server.done
    const failed = ['started', 'ended: failure', 'waiting']
    expect(await events).toEqual([...failed, ...failed, 'started', 'ended: exit'])
    expect([runs(), server.restarts, server.current]).toEqual([3, 2, undefined])
    expect(await eventsOf(server.events())).toEqual([])
  })

  it('starts again what was asked for, whatever became of the arguments and the options since', async () => {
    const { args } = counting('exit 1', 'exit 0')
    const asked = ['-c', `echo "$WORD" >> words; ${args[1]}`]
    const options = { cwd: folder, env: { WORD: 'first' }, restart: { minDelayMs: 1, maxDelayMs: 1 } }
    const program = supervise('sh', asked, options)
    asked[1] = 'echo another >> words; exit 0'
    options.env.WORD = 'second'
    await program.done
    expect(readFileSync(join(folder, 'words'), 'utf8')).toBe('first\nfirst\n')
  })

  it('tells a start before its end, however late the host hears of it', async () => {
    const { prototype } = spawn('true').constructor
    const { get } = Object.getOwnPropertyDescriptor(prototype, 'started')!
    const late = vi.spyOn(prototype, 'started', 'get').mockImplementation(async function (
      this: RunningProcess,
    ) {
      await this.result
      return get!.call(this) as { pid: number }
    })
    onTestFinished(() => late.mockRestore())
    expect(await eventsOf(sh(['-c', 'exit 0']).events())).toEqual(['started', 'ended: exit'])
  })

  it('starts it again for silence, and for a good end if it is asked to', async () => {
    const silent = counting('sleep 60')
    const server = sh(silent.args, {}, { idleTimeoutMs: 200 })
    await server.done
    expect(server.restarts).toBe(1)
    await using again = sh(['-c', 'exit 0'], { on: ['exit'] })
    let starts = 0
    for await (const event of again.events()) if (event.type === 'started' && ++starts === 3) break
    expect(again.restarts).toBeGreaterThanOrEqual(2)
  })

  it('gives up after too many restarts in a row', async () => {
    const { args, runs } = counting('exit 7', 'exit 7', 'exit 7', 'exit 7')
    const error = await rejection(sh(args, { maxRestarts: 2 }).done)
    expect(error).toMatchObject({ code: 'PROCESS_RESTARTS_EXHAUSTED', restarts: 2, result: { exitCode: 7 } })
    expect(error.message).toContain('exited with status 7')
    expect(runs()).toBe(3)
  })

  it('counts anew after a run that was long enough', async () => {
    const { args, runs } = counting('exit 1', 'sleep 0.3; exit 1', 'exit 1')
    await sh(args, { maxRestarts: 2, resetAfterMs: 200 }).done
    expect(runs()).toBe(4)
  })

  it('is stopped with the tree of its program, and in a pause', async () => {
    const file = join(folder, 'children')
    const server = sh([
      '-c',
      `trap 'exit 3' TERM; sleep 60 & echo $! > ${file}.new; mv ${file}.new ${file}; wait`,
    ])
    await run('sh', ['-c', `until [ -e ${file} ]; do sleep 0.01; done`])
    expect(await server.stop()).toMatchObject({ exitCode: 3 })
    expect(() => process.kill(Number(readFileSync(file, 'utf8')), 0)).toThrow('ESRCH')
    await server.done
    const waiting = sh(['-c', 'exit 4'], { minDelayMs: 600_000, maxDelayMs: 600_000 })
    for await (const event of waiting.events()) if (event.type === 'waiting') break
    expect(await waiting.stop()).toMatchObject({ exitCode: 4 })
  })

  it('starts a program again that its user killed', async () => {
    await using server = sh(['-c', 'exec sleep 60'])
    let starts = 0
    for await (const event of server.events())
      if (event.type === 'started') {
        if (++starts === 2) break
        await server.current?.kill('SIGKILL')
      }
    expect(server.restarts).toBe(1)
  })

  it('ends with what another start would not mend', async () => {
    expect(await rejection(supervise('no-such-program').done)).toMatchObject({ code: 'PROCESS_NOT_FOUND' })
    const idle = sh(['-c', 'exit 5'], { on: ['idle'] })
    expect(await rejection(idle.done)).toMatchObject({ code: 'PROCESS_FAILED', exitCode: 5 })
    const abort = new AbortController()
    const server = sh(['-c', 'exec sleep 60'], {}, { signal: abort.signal })
    abort.abort()
    expect(await rejection(server.done)).toMatchObject({ code: 'PROCESS_ABORTED' })
  })

  it.each([
    [{ restart: { on: ['fail'] } }, 'restart.on[0]: '],
    [{ restart: { delay: 5 } }, 'restart.delay: '],
    [{ input: ['text'] }, 'input: '],
    [{ idelTimeoutMs: 5 }, 'idelTimeoutMs: '],
    [{ retry: 2 }, 'retry: '],
  ])('refuses %j', async (options, words) => {
    const error = await rejection(supervise('true', options as SuperviseOptions).done)
    expect(error).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringContaining(words) })
  })
})
