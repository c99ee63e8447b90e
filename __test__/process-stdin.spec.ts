import { once } from 'node:events'
import { createReadStream, mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { pathToFileURL } from 'node:url'
import { describe, expect, it } from 'vitest'
import { ConcurrencyLimit, run, spawn } from '../index.js'

const sh = (script: string) => ['-c', script]

describe('a call that is refused', () => {
  const refused: [string, (input: Readable) => Promise<unknown>][] = [
    ['an option', (input) => run('cat', [], { input, timeoutMs: 'x' as never })],
    ['an option, without arguments', (input) => run('cat', { input, idleTimeoutMs: 'x' as never })],
    ['the program', (input) => run('', [], { input })],
    ['an argument', (input) => run('cat', ['a\0b'], { input })],
    ['a variable', (input) => spawn('cat', [], { input, env: { 'A=B': '' } }).result],
    ['two inputs', (input) => spawn('cat', [], { input, stdin: 'pipe' } as never).result],
    ['a record', (input) => run('cat', [], { input, record: '/proc/no/such' })],
  ]
  it.each(refused)('closes the stream that it was given: %s', async (_, call) => {
    const input = new Readable({ read: () => {} })
    await expect(call(input)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await expect.poll(() => input.destroyed).toBe(true)
  })
})

describe('a writable stdin', () => {
  it('takes text and bytes, is ended, and refuses what comes then', async () => {
    const running = spawn('cat', { stdin: 'pipe' })
    await running.stdin.write('text ü ')
    await running.stdin.write(new Uint8Array([65, 66]))
    expect(running.stdin.isOpen).toBe(true)
    await running.stdin.end()
    await running.stdin.end()
    expect(running.stdin.isOpen).toBe(false)
    await expect(running.stdin.write('late')).rejects.toMatchObject({ code: 'PROCESS_STDIN_CLOSED' })
    expect((await running.result).stdout).toBe('text ü AB')
  })

  it('is there for who asks for it alone', async () => {
    const running = spawn('true')
    expect(running.stdin).toBeUndefined()
    await running.result
  })

  it('keeps the order of what is written at once', async () => {
    const running = spawn('cat', [], { stdin: 'pipe' })
    const numbers = Array.from({ length: 10_000 }, (_, index) => `${index}\n`)
    const written = numbers.map((line) => running.stdin.write(line))
    await running.stdin.end()
    await Promise.all(written)
    expect((await running.result).stdout).toBe(numbers.join(''))
  })

  it('makes a conversation with a program', async () => {
    const running = spawn('sh', sh('while read -r word; do echo "$word!"; done'), { stdin: 'pipe' })
    const lines = running.lines()
    for (const word of ['one', 'two', 'three']) {
      await running.stdin.write(`${word}\n`)
      expect((await lines.next()).value).toEqual({ stream: 'stdout', text: `${word}!` })
    }
    await running.stdin.end()
    expect(await lines.next()).toEqual({ value: undefined, done: true })
  })

  it('slows its writer down', async () => {
    const running = spawn('sh', sh('read -r go; sleep 60'), { stdin: 'pipe' })
    await running.stdin.write('go\n')
    let isTaken = false
    void running.stdin.write('x'.repeat(1 << 20)).then(() => (isTaken = true))
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(isTaken).toBe(false)
    await running.kill()
    // What nobody will take is let go.
    await expect.poll(() => isTaken).toBe(true)
  })

  it('of a program that takes no more is no error, and no busy loop', async () => {
    const running = spawn('true', { stdin: 'pipe' })
    let isOver = false
    void running.result.then(() => (isOver = true))
    while (!isOver) await running.stdin.write('x'.repeat(100_000))
    expect(running.stdin.isOpen).toBe(false)
    await running.stdin.write('x')
    await running.stdin.end()
  })

  it('of a program that was not started lets go of everything', async () => {
    const running = spawn('no-such-program', { stdin: 'pipe' })
    await running.stdin.write('x'.repeat(1 << 20))
    await running.stdin.end()
    await expect(running.result).rejects.toMatchObject({ code: 'PROCESS_NOT_FOUND' })
  })

  it('names a chunk of another type', async () => {
    await using running = spawn('cat', { stdin: 'pipe' })
    await expect(running.stdin.write(7 as never)).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: 'chunk: expected a string or a Uint8Array, got 7',
    })
  })

  it('is a web stream', async () => {
    const running = spawn('cat', { stdin: 'pipe' })
    expect(running.stdin.writable).toBe(running.stdin.writable)
    await new Blob(['from ', 'a blob']).stream().pipeTo(running.stdin.writable)
    expect((await running.result).stdout).toBe('from a blob')
  })

  it('is a web stream that fails when the program takes no more, so that an endless source ends', async () => {
    const running = spawn('head', ['-c', '10'], { stdin: 'pipe' })
    let isCancelled = false
    const endless = new ReadableStream({
      pull: (controller) => controller.enqueue(new Uint8Array(65_536)),
      cancel: () => void (isCancelled = true),
    })
    const poured = endless.pipeTo(running.stdin.writable)
    await expect(poured).rejects.toMatchObject({ code: 'PROCESS_STDIN_CLOSED' })
    expect(isCancelled).toBe(true)
    expect((await running.result).stdoutBytes).toBe(10)
  })

  it('that is aborted ends the run: a part is not the whole', async () => {
    const running = spawn('sh', sh('cat; echo whole'), { stdin: 'pipe' })
    const writer = running.stdin.writable.getWriter()
    await writer.write('part')
    const reason = new Error('the source broke')
    await writer.abort(reason)
    await expect(running.result).rejects.toMatchObject({
      code: 'PROCESS_INPUT_FAILED',
      cause: reason,
      result: { stdout: expect.not.stringContaining('whole') },
    })
  })

  it('is a Node stream', async () => {
    const running = spawn('cat', { stdin: 'pipe' })
    await pipeline(Readable.from(['one ', 'two']), running.stdin.writableNode)
    expect((await running.result).stdout).toBe('one two')
  })

  it('is a Node stream that closes without an error when the program takes no more', async () => {
    const running = spawn('head', ['-c', '10'], { stdin: 'pipe' })
    const stream = running.stdin.writableNode
    const chunk = Buffer.alloc(65_536)
    const pour = () => {
      while (!stream.destroyed && stream.write(chunk));
    }
    stream.on('drain', pour)
    pour()
    await once(stream, 'close')
    expect(stream.errored).toBeNull()
    expect((await running.result).stdoutBytes).toBe(10)
  })

  it('that is destroyed with an error ends the run', async () => {
    const running = spawn('cat', { stdin: 'pipe' })
    running.stdin.writableNode.on('error', () => {}).destroy(new Error('broken'))
    await expect(running.result).rejects.toMatchObject({
      code: 'PROCESS_INPUT_FAILED',
      cause: expect.objectContaining({ message: 'broken' }),
    })
  })

  it('feeds the idle clock', async () => {
    const running = spawn('sh', sh('cat > /dev/null'), { stdin: 'pipe', idleTimeoutMs: 1500 })
    for (let time = 0; time < 6; time++) {
      await running.stdin.write('x')
      await new Promise((resolve) => setTimeout(resolve, 300))
    }
    await running.stdin.end()
    expect((await running.result).exitCode).toBe(0)
  })
})

it('an input whose next chunk is always ready lets everything else in the host run', async () => {
  let isWanted = true
  const empty = {
    *[Symbol.iterator]() {
      while (isWanted) yield ''
    },
  }
  const controller = new AbortController()
  // A clock of the host: without a turn of the event loop it would never ring.
  setTimeout(() => controller.abort(), 50)
  const giveUp = setTimeout(() => (isWanted = false), 20_000)
  await expect(run('cat', [], { input: empty, signal: controller.signal })).rejects.toMatchObject({
    code: 'PROCESS_ABORTED',
  })
  clearTimeout(giveUp)
  expect(isWanted).toBe(true)
})

describe('input', () => {
  async function* three() {
    yield 'one '
    yield Buffer.from('two ')
    yield new Uint8Array([51])
  }

  it.each([
    ['an async iterable', three],
    ['an iterable', () => ['one ', 'two ', '3']],
    ['a Node stream', () => Readable.from(three())],
    ['a web stream', () => ReadableStream.from(three())],
    ['a web stream of bytes', () => new Blob(['one ', 'two 3']).stream()],
  ])('comes from %s', async (_, input) => {
    expect((await run('cat', { input: input() })).stdout).toBe('one two 3')
  })

  it('comes from a file, which is the stdin itself', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'run-'))
    const file = join(folder, 'text')
    writeFileSync(file, 'from a file')
    for (const input of [{ file }, { file: pathToFileURL(file) }, { file: 'text' }]) {
      const { stdout } = await run('sh', sh('cat; readlink /proc/$$/fd/0'), { input, cwd: folder })
      expect(stdout).toBe(`from a file${file}\n`)
    }
    await expect(run('cat', { input: { file: '/no/such' } })).rejects.toMatchObject({
      code: 'PROCESS_INPUT_FAILED',
      file: '/no/such',
      message: expect.stringMatching(/^`input\.file`: open \/no\/such: No such file or directory /),
    })
  })

  it('that is much passes without being kept', async () => {
    function* chunks() {
      const chunk = new Uint8Array(1 << 20)
      for (let count = 0; count < 64; count++) yield chunk
    }
    expect((await run('wc', ['-c'], { input: chunks() })).stdout.trim()).toBe(`${64 << 20}`)
  })

  it('of many small chunks is quick', async () => {
    function* chunks() {
      for (let count = 0; count < 100_000; count++) yield 'x'
    }
    expect((await run('wc', ['-c'], { input: chunks() })).stdout.trim()).toBe('100000')
  })

  it('that fails ends the run, with its error as the cause', async () => {
    const cause = new Error('the source broke')
    async function* broken() {
      yield 'part'
      throw cause
    }
    await expect(run('sh', sh('cat; echo whole'), { input: broken() })).rejects.toMatchObject({
      code: 'PROCESS_INPUT_FAILED',
      cause,
      result: { stdout: expect.not.stringContaining('whole'), signal: 'SIGKILL' },
    })
    const stream = new ReadableStream({ start: (controller) => controller.error(cause) })
    await expect(run('cat', { input: stream })).rejects.toMatchObject({ code: 'PROCESS_INPUT_FAILED', cause })
    await expect(run('cat', { input: [7 as never] })).rejects.toMatchObject({
      code: 'PROCESS_INPUT_FAILED',
      cause: expect.objectContaining({ message: expect.stringMatching(/^input: .* got 7$/) }),
    })
  })

  it('that has failed before it is asked is no end of the host', async () => {
    const missing = createReadStream('/no/such/file')
    const limit = new ConcurrencyLimit(1)
    const held = spawn('sleep', ['60'], { limit })
    const waiting = run('cat', { input: missing, limit })
    await expect.poll(() => missing.errored).toBeTruthy()
    await held.kill()
    await expect(waiting).rejects.toMatchObject({ code: 'PROCESS_INPUT_FAILED', cause: { code: 'ENOENT' } })
  })

  it('is given back when the program ends first', async () => {
    let isReturned = false
    async function* endless() {
      try {
        for (;;) yield 'x'.repeat(10_000)
      } finally {
        isReturned = true
      }
    }
    expect((await run('head', ['-c', '5'], { input: endless() })).stdout).toBe('xxxxx')
    await expect.poll(() => isReturned).toBe(true)

    let isCancelled = false
    const quiet = new PassThrough()
    await run('true', { input: quiet })
    await expect.poll(() => quiet.destroyed).toBe(true)

    const silent = new ReadableStream({ cancel: () => void (isCancelled = true) })
    await run('true', { input: silent })
    await expect.poll(() => isCancelled).toBe(true)
  })

  it('is not begun for a program that does not run', async () => {
    let isBegun = false
    async function* source() {
      isBegun = true
      yield 'x'
    }
    const aborted = { input: source(), signal: AbortSignal.abort() }
    await expect(run('cat', aborted)).rejects.toMatchObject({ code: 'PROCESS_ABORTED' })
    await expect(run('cat', { input: source(), timeoutMs: -1 })).rejects.toMatchObject({
      code: 'PROCESS_TIMED_OUT',
    })
    expect(isBegun).toBe(false)
    const stream = Readable.from(['x'])
    await expect(run('no-such-program', { input: stream })).rejects.toMatchObject({
      code: 'PROCESS_NOT_FOUND',
    })
    await expect.poll(() => stream.destroyed).toBe(true)
  })

  it.each([
    ['a number', { input: 7 }, /^input: expected a string, a Uint8Array, a stream/],
    ['numbers', { input: new Uint16Array([1]) }, /^input: expected .* got an object/],
    ['a plain object', { input: { path: 'x' } }, /^input: expected .* got an object/],
    ['a file that is no path', { input: { file: 7 } }, /^input\.file: expected a string/],
    ['another field', { input: { file: 'x', encoding: 'y' } }, /^input\.encoding: no such option/],
    ['stdin beside input', { input: 'x', stdin: 'inherit' }, /^stdin: /],
    ['a pipe for run()', { stdin: 'pipe' }, /^stdin: "pipe" is for spawn\(\)/],
    ['an unknown stdin', { stdin: 'ignore' }, /^stdin: expected "null" or "pipe" or "inherit"/],
    ['stdio of another library', { stdio: 'pipe' }, /^stdio: expected "inherit", got "pipe"/],
    ['input beside stdio', { stdio: 'inherit', input: 'x' }, /^input: /],
    ['stdin beside stdio', { stdio: 'inherit', stdin: 'pipe' }, /^stdin: /],
    ['a terminal beside stdio', { stdio: 'inherit', pty: true }, /^pty: /],
    ['a terminal whose stdin is the host', { pty: true, stdin: 'inherit' }, /^stdin: /],
  ])('refuses %s', async (_, options, message) => {
    await expect(run('cat', options as never)).rejects.toMatchObject({ code: 'INVALID_OPTION', message })
  })

  it('refuses a stream that is being read', async () => {
    const stream = new Blob(['x']).stream()
    stream.getReader()
    await expect(run('cat', { input: stream })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringMatching(/^input: /),
    })
  })

  it('refuses both, also in spawn', async () => {
    const running = spawn('cat', { stdin: 'pipe', input: 'x' })
    await expect(running.result).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })
})

it('takes many small chunks together, of every kind of source', async () => {
  const count = 20_000
  function* lines() {
    for (let number = 0; number < count; number++)
      yield number % 2 ? `${number}\n` : Buffer.from(`${number}\n`)
  }
  const expected = [...lines()].join('')
  const late = { [Symbol.iterator]: () => ({ next: () => undefined as never }) }
  for (const input of [lines(), Readable.from(lines()), ReadableStream.from(lines()), [...lines()]])
    expect((await run('cat', { input: input as Iterable<string> })).stdout).toBe(expected)
  await expect(run('cat', { input: late })).rejects.toMatchObject({ code: 'PROCESS_INPUT_FAILED' })
})
