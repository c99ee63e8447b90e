import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import { afterEach, describe, expect, it } from 'vitest'
import { run, spawn } from '../index.js'

const fixture = (name: string) => join(import.meta.dirname, '../fixtures/bin', name)
const execute = promisify(execFile)
const sh = (script: string, options = {}) => run('sh', ['-c', script], options)

function isAlive(pid: number): boolean {
  if (!existsSync(`/proc/${pid}/stat`)) return false
  return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 10))
}

async function collect<T>(iterable: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = []
  for await (const item of iterable) items.push(item)
  return items
}

describe('run', () => {
  it('resolves with everything a user asks about, for any exit status', async () => {
    const result = await sh('echo out; echo err >&2; exit 3')
    expect(result).toMatchObject({
      command: 'sh',
      args: ['-c', 'echo out; echo err >&2; exit 3'],
      exitCode: 3,
      signal: null,
      stdout: 'out\n',
      stderr: 'err\n',
      stdoutBytes: 4,
      stderrBytes: 4,
      truncated: false,
      pipesHeldOpen: false,
      straysKilled: 0,
    })
    expect(result.pid).toBeGreaterThan(0)
    expect(result.durationMs).toBeGreaterThan(0)
    expect(result.firstOutputMs).toBeLessThanOrEqual(result.lastOutputMs!)
    expect(result.usage.maxRssBytes).toBeGreaterThan(0)
    expect(['guard', 'guard+cgroup', 'group']).toContain(result.containment)
  })

  it('reports a signal and no output as null', async () => {
    const result = await sh('kill -TERM $$')
    expect(result).toMatchObject({
      exitCode: null,
      signal: 'SIGTERM',
      firstOutputMs: null,
      lastOutputMs: null,
    })
  })

  it('gives the environment that was asked for', async () => {
    process.env.SHEEPDOG_TEST_A = 'a'
    process.env.SHEEPDOG_TEST_B = 'b'
    const print = 'echo "$SHEEPDOG_TEST_A,$SHEEPDOG_TEST_B,$C"'
    expect((await sh(print, { env: { C: 'c', SHEEPDOG_TEST_B: undefined } })).stdout).toBe('a,,c\n')
    expect((await sh(print, { inheritEnv: ['PATH', 'SHEEPDOG_TEST_B'] })).stdout).toBe(',b,\n')
    expect((await sh(print, { inheritEnv: false, env: { PATH: process.env.PATH, C: 'c' } })).stdout).toBe(
      ',,c\n',
    )
  })

  it('writes input and closes it, and takes stdin as null without', async () => {
    expect((await run('cat', [], { input: 'text ü' })).stdout).toBe('text ü')
    expect((await run('cat', [], { input: new Uint8Array([65, 66]) })).stdout).toBe('AB')
    expect((await run('cat')).stdout).toBe('')
    expect((await run('true', [], { input: 'x'.repeat(8 << 20) })).exitCode).toBe(0)
  })

  it('keeps head and tail on line borders', async () => {
    const { stdout, truncated } = await sh('seq 1 100000', { maxOutputBytes: 40 })
    expect(truncated).toBe(true)
    expect(stdout).toMatch(/^1\n2\n[\s\S]*\n\[\.\.\. \d+ bytes left out \.\.\.\]\n[\s\S]*100000\n$/)
  })

  it('takes any number for a timeout', async () => {
    for (const timeoutMs of [0, Infinity, 2 ** 40, 1e300]) {
      expect((await sh('sleep 0.05; echo x', { timeoutMs, idleTimeoutMs: timeoutMs })).stdout).toBe('x\n')
    }
  })
})

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
    await expect(collect(processes[2]!.lines())).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await new Promise((resolve) => setImmediate(resolve))
    process.off('unhandledRejection', listener)
    expect(faults).toEqual([])
  })

  it('carries what was read before', async () => {
    const idle = await sh('echo before; sleep 60', { idleTimeoutMs: 200 }).catch((error) => error)
    expect(idle).toMatchObject({
      code: 'PROCESS_IDLE',
      idleTimeoutMs: 200,
      result: { stdout: 'before\n', signal: 'SIGKILL' },
    })
    const late = await sh('echo before; sleep 60', { timeoutMs: 200 }).catch((error) => error)
    expect(late).toMatchObject({
      code: 'PROCESS_TIMED_OUT',
      timeoutMs: 200,
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

describe('an abort signal', () => {
  it('that is already aborted starts nothing', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sheepdog-'))
    const reason = new Error('enough')
    const signal = AbortSignal.abort(reason)
    await expect(run('touch', [join(folder, 'x')], { signal })).rejects.toMatchObject({
      code: 'PROCESS_ABORTED',
      cause: reason,
    })
    expect(existsSync(join(folder, 'x'))).toBe(false)
    rmSync(folder, { recursive: true })
  })

  it('stops the tree, leaves onabort alone and is let go of at the end', async () => {
    const controller = new AbortController()
    let heard = 0
    controller.signal.onabort = () => heard++
    const running = spawn('sh', ['-c', 'setsid sh -c "echo \\$\\$ $$; exec sleep 60" & wait'], {
      signal: controller.signal,
    })
    const { value } = await running.lines().next()
    controller.abort()
    const error = await running.result.catch((error) => error)
    expect(error).toMatchObject({ code: 'PROCESS_ABORTED', result: { signal: 'SIGTERM', straysKilled: 1 } })
    expect(heard).toBe(1)
    for (const pid of value.text.split(' ')) expect(isAlive(Number(pid))).toBe(false)
  })

  it('of a run that has ended is nothing to it', async () => {
    const controller = new AbortController()
    const running = spawn('true', [], { signal: controller.signal })
    const result = await running.result
    controller.abort()
    expect(await running.kill()).toEqual(result)
    expect(await running.result).toEqual(result)
  })
})

describe('iterating', () => {
  it('gives both streams line by line, split at newlines only', async () => {
    const running = spawn('printf', ['a\\r\\nb\u2028c\u0085d\\n\\nlast'])
    const lines = await collect(running)
    expect(lines).toEqual(['a', 'b\u2028c\u0085d', '', 'last'].map((text) => ({ stream: 'stdout', text })))
  })

  it('never tears a character, however the bytes come', async () => {
    const script = "printf 'a\\303'; sleep 0.1; printf '\\244b\\n\\377\\n'"
    expect(await collect(spawn('sh', ['-c', script]).lines())).toMatchObject([
      { text: 'aäb' },
      { text: '\ufffd' },
    ])
  })

  it('gives batches and keeps the order of lines', async () => {
    const batches = await collect(spawn('seq', ['1', '100000']).lineBatches())
    expect(batches.flatMap((batch) => batch.lines)).toEqual(
      Array.from({ length: 100_000 }, (_, index) => `${index + 1}`),
    )
  })

  it('gives JSON objects and skips everything else', async () => {
    const lines = [
      '{"type":"a","n":1}',
      '123',
      'null',
      '"x"',
      '[1]',
      '{broken',
      '[['.repeat(100_000),
      '',
      '{"type":"b"}',
      '  {"n":2}',
    ]
    const input = lines.join('\n')
    expect(await collect(spawn('cat', [], { input }).json())).toEqual([
      { type: 'a', n: 1 },
      { type: 'b' },
      { n: 2 },
    ])
    expect(await collect(spawn('cat', [], { input }).json({ types: ['b', 'c'] }))).toEqual([{ type: 'b' }])
    expect(await collect(spawn('cat', [], { input }).json({ types: [] }))).toEqual([])
  })

  it('delivers a line of 30 MB whole', async () => {
    const size = 30 << 20
    const script = `printf '{"type":"big","text":"'; head -c ${size} /dev/zero | tr '\\0' x; printf '"}\\n'`
    const [event] = await collect(spawn('sh', ['-c', script]).json<{ text: string }>({ types: ['big'] }))
    expect(event!.text.length).toBe(size)
  })

  it('names a line that is too long, after those before it', async () => {
    const running = spawn('sh', ['-c', 'echo short; head -c 5000 /dev/zero; sleep 60'], {
      maxLineBytes: 1000,
    })
    const seen: string[] = []
    const error = await (async () => {
      for await (const { text } of running) seen.push(text)
    })().catch((error) => error)
    expect(seen).toEqual(['short'])
    expect(error).toMatchObject({ code: 'PROCESS_LINE_TOO_LONG', maxLineBytes: 1000, stream: 'stdout' })
    expect((await sh('head -c 5000 /dev/zero', { maxLineBytes: 1000 })).stdoutBytes).toBe(5000)
  })

  it('ends by throwing what result rejects with', async () => {
    const running = spawn('sh', ['-c', 'echo x; exec sleep 60'], { idleTimeoutMs: 200 })
    const iterator = running.lines()
    expect((await iterator.next()).value.text).toBe('x')
    await expect(iterator.next()).rejects.toMatchObject({ code: 'PROCESS_IDLE' })
    expect(await iterator.next()).toEqual({ value: undefined, done: true })
  })

  it('starts with what was printed before', async () => {
    const running = spawn('sh', ['-c', 'echo early'])
    await running.result
    expect(await collect(running)).toEqual([{ stream: 'stdout', text: 'early' }])
  })

  it('once a process: a second iterator throws', () => {
    const running = spawn('true')
    running.lines()
    expect(() => running.json()).toThrow(expect.objectContaining({ code: 'PROCESS_ITERATED' }))
  })

  it('may be left early: the rest is kept', async () => {
    const running = spawn('seq', ['1', '50000'])
    for await (const { text } of running) if (text === '10') break
    const { stdout, exitCode } = await running.result
    expect(exitCode).toBe(0)
    expect(stdout.endsWith('\n50000\n')).toBe(true)
  })

  it('slowly slows the program and is not taken for silence', async () => {
    const running = spawn('sh', ['-c', 'seq 1 400000; echo end >&2'], { idleTimeoutMs: 400 })
    const iterator = running.lineBatches()
    await iterator.next()
    await new Promise((resolve) => setTimeout(resolve, 700))
    let count = 0
    for await (const { stream, lines } of iterator) if (stream === 'stdout') count += lines.length
    expect(count).toBeGreaterThan(300_000)
    await expect(running.result).resolves.toMatchObject({ exitCode: 0, stderr: 'end\n' })
  })

  it('keeps the streams that are not iterated', async () => {
    const running = spawn('sh', ['-c', 'echo note >&2; echo \'{"a":1}\''])
    expect(await collect(running.json())).toEqual([{ a: 1 }])
    await expect(running.result).resolves.toMatchObject({ stderr: 'note\n', stdout: '{"a":1}\n' })
  })

  it('delivers in order to a hundred readers at once', async () => {
    const counts = await Promise.all(
      Array.from({ length: 100 }, async () => {
        let expected = 0
        for await (const { text } of spawn('seq', ['1', '500'])) expect(text).toBe(`${++expected}`)
        return expected
      }),
    )
    expect(new Set(counts)).toEqual(new Set([500]))
  })
})

describe('kill', () => {
  it('resolves when the tree is gone, while result rejects', async () => {
    const running = spawn(
      'sh',
      ['-c', 'trap "" TERM; setsid sh -c "echo \\$\\$ $$; exec sleep 60" & wait; sleep 60'],
      { killGraceMs: 200 },
    )
    const { value } = await running.lines().next()
    const result = await running.kill()
    expect(result).toMatchObject({ signal: 'SIGKILL', exitCode: null })
    for (const pid of value.text.split(' ')) expect(isAlive(Number(pid))).toBe(false)
    await expect(running.result).rejects.toMatchObject({ code: 'PROCESS_KILLED', result })
  })

  it('is what leaving an `await using` block does', async () => {
    let pid: number | undefined
    {
      await using running = spawn('sleep', ['60'])
      pid = (await running.started).pid
      expect(running.pid).toBe(pid)
    }
    expect(isAlive(pid)).toBe(false)
  })
})

describe('the host', () => {
  it('whose thread is blocked: silence is ended on time, chatter is left alone', async () => {
    const { stdout } = await execute(process.execPath, [fixture('host-blocks.mjs')])
    const seen = JSON.parse(stdout)
    expect(seen).toMatchObject({ code: 'PROCESS_IDLE', lines: 10 })
    expect(seen.durationMs).toBeGreaterThan(690)
    expect(seen.durationMs).toBeLessThan(2000)
  })

  it('ends by itself when all is done', async () => {
    const { stdout } = await execute(process.execPath, [fixture('host-ends.mjs')], { timeout: 20_000 })
    expect(stdout).toBe('x\ndone\n')
  })

  it('runs from a worker thread, with its environment, and its runs end with it', async () => {
    const worker = new Worker(fixture('worker-runs.mjs'))
    const { stdout, pids } = await new Promise<{ stdout: string; pids: number[] }>((resolve, reject) => {
      worker.once('message', resolve).once('error', reject)
    })
    expect(stdout).toBe('yes\n')
    expect(pids.every(isAlive)).toBe(true)
    await worker.terminate()
    await until(() => !pids.some(isAlive))
  })

  it('runs a thousand children at once', async () => {
    const results = await Promise.all(Array.from({ length: 1000 }, (_, index) => sh(`echo ${index}`)))
    expect(results.map((result) => result.stdout)).toEqual(
      Array.from({ length: 1000 }, (_, index) => `${index}\n`),
    )
  })

  it('is not touched: its own children keep their exit events', async () => {
    const own = execute('sh', ['-c', 'sleep 0.2; exit 5']).catch((error) => error.code)
    await Promise.all(Array.from({ length: 20 }, () => sh('sleep 60 & exit 0', { drainMs: 0 })))
    expect(await own).toBe(5)
  })
})
