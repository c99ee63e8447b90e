// Ways to consume, to feed and to end a program: the same under child_process and here, but for the rows of docs/moving-over.md.
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

interface Seen {
  text: string
  end: string
  code: number | null
  signal: string | null
}

interface Row {
  name: string
  consumer: string
  feed: string
  end: string
  child: Seen
  ours: Seen
}

const root = join(__dirname, '..')
const failures = new Set(['timeout', 'idle timeout', 'abort', 'kill()', 'a missing program'])
const deaf = new Set(['pipe()', "on('data')", 'readline', 'two readers', 'nobody'])

/** Intended differences: a sentence of docs/moving-over.md, the rows that it is about, and what is seen here in place of there. */
const differences: {
  words: string
  /** Under child_process it depends on the moment, so a run may have no such row. */
  isRace?: boolean
  isOf: (row: Row) => boolean
  here: (there: Seen, row: Row) => Partial<Seen>
}[] = [
  {
    words: 'a stream of a run that was stopped or could not start ends with its error',
    // A loop that its body left hears of nothing.
    isOf: ({ consumer, end, child }) =>
      failures.has(end) && !deaf.has(consumer) && (child.text === '' || !consumer.includes('left')),
    here: () => ({ end: 'error' }),
  },
  {
    words: '`idleTimeoutMs` kills with SIGKILL at once',
    isOf: ({ end }) => end === 'idle timeout',
    here: () => ({ signal: 'SIGKILL' }),
  },
  {
    words: 'a reader that comes after the exit gets the output',
    isRace: true,
    isOf: ({ consumer, child, ours }) => consumer === 'a reader that comes late' && child.text !== ours.text,
    here: (_, { ours, feed }) => ({ text: whole[feed] ?? ours.text }),
  },
  {
    words: 'the sizes of chunks differ',
    isOf: ({ consumer }) =>
      consumer === 'for await, left by break' || consumer === 'for await, left by an error',
    here: (there, { ours }) =>
      ours.text.startsWith('begin\n') && there.text.startsWith('begin\n') ? { text: ours.text } : {},
  },
]

const whole: Record<string, string> = {
  nothing: 'begin\n',
  'text with its end': 'begin\nf\u00e9d\n',
  'text that comes late': 'begin\nfed\n',
  'more than it reads': 'begin\nxxx',
}

it(
  'consumers, sources and ends are as with child_process, but for what the docs name',
  { timeout: 300_000 },
  async () => {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      [join(root, 'fixtures', 'stream-table.mjs')],
      {
        maxBuffer: 1 << 26,
      },
    )
    const { rows, outside } = JSON.parse(stdout) as { rows: Row[]; outside: string[] }
    expect(rows.length).toBeGreaterThan(500)
    // Nobody listens to errors in most rows: none may end the host.
    expect(outside).toEqual([])
    const used = new Set<string>()
    const wrong = rows.filter((row) => {
      const expected = { ...row.child }
      for (const { words, isOf, here } of differences)
        if (isOf(row)) {
          used.add(words)
          Object.assign(expected, here(row.child, row))
        }
      return JSON.stringify(expected) !== JSON.stringify(row.ours)
    })
    expect(wrong).toEqual([])
    const page = readFileSync(join(root, 'docs', 'moving-over.md'), 'utf8')
    for (const { words, isRace } of differences) {
      if (!isRace) expect(used).toContain(words)
      expect(page).toContain(words)
    }
  },
)
