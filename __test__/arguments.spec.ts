// Methods with the names of well-known ones: they take the arguments that people know, or refuse them.
import { Writable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { run, spawn } from '../index.js'
import { serveRuntime } from '../entries/runtime.js'
import { rejection } from './copilot/peer'

const refused = { code: 'INVALID_OPTION' }
const callback = () => {}

const piped = () => spawn('cat', [], { stdin: 'pipe' })

describe('stdin.write() and stdin.end()', () => {
  it('write a last text, in its encoding, and call back', async () => {
    const child = piped()
    const called = new Promise((resolve) => child.stdin.write('\u00e9', 'latin1', resolve))
    const ended = new Promise((resolve) => child.stdin.end(Buffer.from('end'), (error) => resolve(error)))
    expect([await called, await ended]).toEqual([null, null])
    const { stdout } = await child.result
    expect(stdout).toBe('\ufffdend')
  })

  it.each([
    ['a text', (stdin: ReturnType<typeof piped>['stdin']) => stdin.end('abc')],
    ['a text and an encoding', (stdin: ReturnType<typeof piped>['stdin']) => stdin.end('616263', 'hex')],
    ['a text and a callback', (stdin: ReturnType<typeof piped>['stdin']) => stdin.end('abc', callback)],
  ])('end() with %s', async (_, end) => {
    const child = piped()
    await end(child.stdin)
    expect((await child.result).stdout).toBe('abc')
  })

  it('tell an error to the callback alone', async () => {
    const child = piped()
    await child.stdin.end()
    const error = await new Promise((resolve) => void child.stdin.write('late', resolve))
    expect(error).toMatchObject({ code: 'PROCESS_STDIN_CLOSED' })
    expect(await rejection(child.stdin.end('late'))).toMatchObject({ code: 'PROCESS_STDIN_CLOSED' })
  })

  it('refuse an encoding or a callback that is none', async () => {
    await using child = piped()
    expect(await rejection(child.stdin.write('x', 'utf9' as never))).toMatchObject(refused)
    expect(await rejection(child.stdin.write('x', 'utf8', 7 as never))).toMatchObject(refused)
    expect(await rejection(child.stdin.write(7 as never))).toMatchObject(refused)
  })

  it('a web stream that is given what is neither text nor bytes ends the run at once', async () => {
    const child = piped()
    const writer = child.stdin.writable.getWriter()
    await writer.write('part')
    await expect(writer.write(7 as never)).rejects.toMatchObject(refused)
    await expect(child.result).rejects.toMatchObject({ code: 'PROCESS_INPUT_FAILED', cause: refused })
  })
})

it('bytes with the encoding "buffer", as a stream of Node forwards them, are written', async () => {
  const child = piped()
  const forward = new Writable({
    write(chunk: Buffer, encoding, done) {
      void child.stdin.write(chunk, encoding, done)
    },
    final: (done) => void child.stdin.end(done),
  })
  forward.end(Buffer.from('abc'))
  expect((await child.result).stdout).toBe('abc')
})

describe('arguments that a method does not have are refused', () => {
  it('by run() and spawn()', async () => {
    const more = run as unknown as (...given: unknown[]) => Promise<unknown>
    expect(await rejection(more('true', [], {}, callback))).toMatchObject({
      ...refused,
      message: expect.stringContaining('no callback'),
    })
    const started = (spawn as unknown as typeof more)('true', [], {}, callback) as unknown as ReturnType<
      typeof piped
    >
    expect(await rejection(started.result)).toMatchObject(refused)
  })

  it('by the readers of a process', async () => {
    await using child = spawn('true')
    for (const name of ['lines', 'lineBatches', 'bytes'] as const) {
      const read = child[name].bind(child) as (options: unknown) => unknown
      expect(() => read({ stream: 'stderr' })).toThrow(expect.objectContaining(refused))
    }
    expect(() => (child.json as (...given: unknown[]) => unknown)({}, 'stderr')).toThrow(
      expect.objectContaining(refused),
    )
  })

  it('by the other methods of a process', async () => {
    await using child = spawn('cat', [], { pty: true, stdin: 'pipe' })
    const calls: [string, unknown[]][] = [
      ['kill', ['SIGTERM', { forceKillAfterDelay: 5 }]],
      ['expect', ['x', {}, callback]],
      ['saveOutput', [{ stdout: 'f' }, callback]],
    ]
    for (const [name, given] of calls) {
      const call = child[name as 'kill'].bind(child) as (...given: unknown[]) => Promise<unknown>
      expect(await rejection(call(...given)), name).toMatchObject(refused)
    }
  })

  it('by close()', async () => {
    await using server = await serveRuntime({
      port: 0,
      handler: { run: () => Promise.reject(new Error('none')) },
    })
    const close = server.close.bind(server) as (done: () => void) => Promise<void>
    expect(await rejection(close(callback))).toMatchObject(refused)
  })
})
