import { describe, expect, it } from 'vitest'
import { spawn } from '../index.js'

const printing = (text: string, args: string[] = []) =>
  spawn(process.execPath, ['-e', `process.stdout.write(${text})`, ...args])

async function byLine(text: string): Promise<string[]> {
  const lines: string[] = []
  for await (const { text: line } of printing(text).lines()) lines.push(line)
  return lines
}

async function byBatch(text: string): Promise<string[]> {
  const all: string[] = []
  for await (const { lines } of printing(text).lineBatches()) all.push(...lines)
  return all
}

describe.each([
  ['lines()', byLine],
  ['lineBatches()', byBatch],
])('%s', (_, read) => {
  it('gives plain, Latin-1 and wide characters as they were printed', async () => {
    const lines = ['plain', 'h\u00e4\u00ff', 'snow \u2603 and \u{1f600}', '', 'a\u2028b\u0085c', 'last']
    expect(await read(JSON.stringify(lines.join('\n') + '\n'))).toEqual(lines)
  })

  it('gives a last line without its end, and takes \\r\\n for one end', async () => {
    expect(await read(JSON.stringify('one\r\ntwo\n\r\nth\rree'))).toEqual(['one', 'two', '', 'th\rree'])
  })

  it('gives blocks of every width and size in order', async () => {
    const script = `Array.from({ length: 4000 }, (_, i) => i + ['x', '\u00e9', '\u2603'][(i >> 9) % 3].repeat(i % 300) + '\\n').join('')`
    const lines = await read(script)
    expect(lines).toHaveLength(4000)
    lines.forEach((line, index) => {
      expect(line).toBe(index + ['x', '\u00e9', '\u2603'][(index >> 9) % 3]!.repeat(index % 300))
    })
  })

  it('gives a line that is longer than any block, whole, between short ones', async () => {
    const lines = await read(`'a\\n' + 'x'.repeat(3e6) + '\\n' + '\u2603'.repeat(1e6) + '\\nb\\n'`)
    expect(lines.map((line) => line.length)).toEqual([1, 3e6, 1e6, 1])
    expect(lines[2]).toBe('\u2603'.repeat(1e6))
  })
})
