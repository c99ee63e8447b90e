// What is read line by line while a program runs.
import { describe, expect, it } from 'vitest'
import { run, spawn } from '../index.js'

async function collect<T>(iterable: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = []
  for await (const item of iterable) items.push(item)
  return items
}

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

  it('tells json() of each line that it skips, in its place', async () => {
    const text = 'first\n{"type":"a"}\n\n[1]\n{"type":"b"}\n{broken}\n  {"type":"a","n":2}\n42\nlast'
    for (const [types, values, skipped] of [
      [undefined, ['a', 'b', 'a'], ['first', '[1]', '{broken}', '42', 'last']],
      // With `types` a line in braces is an object, also a broken one.
      [['a'], ['a', 'a'], ['first', '[1]', '42', 'last']],
    ] as const) {
      const child = spawn('printf', ['%s', text])
      const seen: string[] = []
      const order: string[] = []
      const onSkipped = (line: string) => void (seen.push(line), order.push('-'))
      for await (const { type } of child.json<{ type: string }>({ types, onSkipped })) order.push(type)
      expect(seen).toEqual(skipped)
      expect(order.filter((one) => one !== '-')).toEqual(values)
      expect(order.slice(0, 2)).toEqual(['-', 'a'])
      expect(child.skippedLines).toBe(skipped.length)
    }
    const onSkipped = () => {
      throw new Error('mine')
    }
    await expect(collect(spawn('echo', ['noise']).json({ onSkipped }))).rejects.toThrow('mine')
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
    expect((await run('sh', ['-c', 'head -c 5000 /dev/zero'], { maxLineBytes: 1000 })).stdoutBytes).toBe(5000)
  })

  it('ends by throwing what result rejects with', async () => {
    const running = spawn('sh', ['-c', 'echo x; exec sleep 60'], { idleTimeoutMs: 2000 })
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
    const running = spawn('sh', ['-c', 'seq 1 400000; echo end >&2'], { idleTimeoutMs: 1000 })
    const iterator = running.lineBatches()
    await iterator.next()
    await new Promise((resolve) => setTimeout(resolve, 1500))
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
