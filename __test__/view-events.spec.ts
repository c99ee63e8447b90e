// Recorded events whose fields anybody may have written: each way of showing them takes what it can and shows the rest as it stands.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { listRuns, type RunSummary } from '..'
import { eventLineOf, toldEvent } from '../dist/cli/event_line'
import { stepLines } from '../dist/cli/recorded_step'
import { RecordSource } from '../dist/cli/view/record_source'
import { bodyOf, rowOf, searchedText } from '../dist/cli/view/row'
import { TimelineBuilder } from '../dist/cli/view/timeline'
import { sheepdog } from './cli-command'

const folder = mkdtempSync(join(tmpdir(), 'event-line-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** JSON of values that a field may have in place of its own. */
const odd = [
  '5',
  '"x"',
  'true',
  'null',
  '[1]',
  '{"a":1}',
  '[]',
  '{}',
  '1e300',
  '1e999',
  '-5',
  '{"toString":1}',
]
odd.push('"__proto__"', '"constructor"', '{"toString":{"a":1}}')

const events: Record<string, unknown>[] = [
  { type: 'text', text: 'x', delta: false },
  { type: 'reasoning', text: 'x', delta: true },
  { type: 'prompt', text: 'x' },
  { type: 'tool_start', id: '1', name: 'bash', input: { command: 'ls' } },
  { type: 'tool_end', id: '1', name: 'bash', output: 'x', exitCode: 1, isError: true },
  { type: 'usage', inputTokens: 1, outputTokens: 2, cachedInputTokens: 0, costUsd: 0.5 },
  { type: 'retry', message: 'x', until: 5 },
  { type: 'warning', message: 'x' },
  { type: 'refused', kind: 'host', what: 'x' },
  { type: 'error', kind: 'auth', message: 'x' },
  { type: 'session', sessionId: 'x' },
  { type: 'noise', line: 'x' },
  { type: 'end', ok: true },
  { type: 'turn_start', turn: 1, by: 'prompt' },
  { type: 'turn_end', turn: 1 },
]

/** Lines of a file of events with one odd value each. */
function* oddLines(): Generator<string> {
  const put = (line: object) => odd.map((value) => JSON.stringify(line).replace('"@"', value))
  yield* put({ ms: '@', attempt: 1, event: events[0] })
  yield* put({ ms: 1, attempt: '@', event: events[0] })
  yield* put({ ms: 1, attempt: 1, event: '@' })
  yield* put({ ms: 1, attempt: 1, judged: '@' })
  for (const name of ['stop', 'retry'])
    yield* put({ ms: 1, attempt: 1, judged: { stop: 'Idle', [name]: '@' } })
  for (const event of events)
    for (const name of Object.keys(event)) yield* put({ ms: 1, attempt: 1, event: { ...event, [name]: '@' } })
}

const nonsense = /\[object|NaN|undefined|Infinity/

it('shows each line that can be read, whatever the types of its fields', () => {
  for (const text of oddLines()) {
    const line = eventLineOf(text)!
    for (const kind of ['turn', 'session'] as const) {
      const timeline = new TimelineBuilder(kind)
      timeline.onEvent(line, 0)
      expect(Number.isFinite(timeline.timeline().heardMs), text).toBe(true)
    }
    const shown: unknown[] = [rowOf(line, 0, line), bodyOf(line), searchedText(line)]
    for (const full of [true, false]) if (line.event) shown.push(stepLines(line.event, { full }, line.ms))
    expect(JSON.stringify(shown), text).not.toMatch(nonsense)
  }
})

it('an event of a handler that has the type of another one is shown as JSON', () => {
  const event = { type: 'error', error: 'disk full' }
  expect(toldEvent(event)).toEqual({ type: 'noise', line: JSON.stringify(event) })
  expect(toldEvent({ type: 'progress', done: 3 })).toEqual({ type: 'progress', done: 3 })
})

it('sheepdog replay shows a damaged record of a session, and says where an end is missing', async () => {
  const path = join(folder, 'damaged')
  mkdirSync(path)
  const start = { version: 1, kind: 'session', provider: 'codex', startedAtMs: 1 }
  writeFileSync(join(path, 'run.json'), JSON.stringify(start))
  writeFileSync(join(path, 'events.jsonl'), [...oddLines()].map((line) => `${line}\n`).join(''))
  writeFileSync(join(path, 'end.json'), '{"ok":5,"failedPrompts":"x"}')
  const { status, stdout, stderr } = await sheepdog(['replay', path])
  expect({ status, stderr }).toEqual({ status: 1, stderr: '' })
  expect(stdout).toMatch(/its end\.json does not say how it ended\n$/)
  for (const [end, words] of [
    ['{"exitCode":{"a":1}}', 'its end.json does not say how it ended'],
    ['{"exitCode":3,"durationMs":"x"}', 'exited with 3 after 0 ms'],
    ['5', 'unfinished'],
  ]) {
    writeFileSync(join(path, 'run.json'), JSON.stringify({ ...start, kind: 'run', command: 'make' }))
    writeFileSync(join(path, 'end.json'), end!)
    const shown = await sheepdog(['replay', path])
    expect({ status: shown.status, stdout: shown.stdout }).toEqual({ status: 1, stdout: '' })
    expect(shown.stderr).toContain(words)
  }
  writeFileSync(join(path, 'run.json'), 'null')
  const none = await sheepdog(['replay', path])
  expect(none).toMatchObject({ status: 2, stderr: expect.stringContaining('run.json cannot be read') })
})

it('a number that is no time and no count is left out of a run', async () => {
  const path = join(folder, 'runs', 'r1')
  mkdirSync(path, { recursive: true })
  writeFileSync(join(path, 'run.json'), '{"kind":"turn","name":"x","startedAtMs":1e300}')
  const usage = '{"inputTokens":1e999,"outputTokens":1,"cachedInputTokens":0}'
  writeFileSync(
    join(path, 'end.json'),
    `{"ok":true,"endedAtMs":1e17,"result":{"attempts":1e99,"usage":${usage}}}`,
  )
  const runs: RunSummary[] = []
  for await (const run of listRuns(join(folder, 'runs'))) runs.push(run)
  expect(runs).toEqual([
    { id: 'r1', folder: path, kind: 'turn', state: 'done', name: 'x', startedAt: new Date(0) },
  ])
})

it('entries of a race have fields of their types alone', async () => {
  const whole = {
    run: null,
    provider: 'codex',
    state: 'won',
    reason: null,
    tokens: 5,
    costUsd: 1,
    durationMs: 3,
    files: 1,
  }
  const path = join(folder, 'raced', 'r1')
  mkdirSync(path, { recursive: true })
  writeFileSync(join(path, 'run.json'), '{"kind":"turn","name":"x","startedAtMs":1}')
  const source = await RecordSource.open(join(folder, 'raced'))
  for (const name of Object.keys(whole))
    for (const value of odd) {
      const entry = JSON.stringify({ ...whole, [name]: '@' }).replace('"@"', value)
      writeFileSync(join(path, 'race.json'), `{"entries":[${entry},${value}]}`)
      const { race } = (await source.detail('r1'))!
      for (const { provider, state, tokens, costUsd, durationMs, files } of race!) {
        const types = [typeof provider, typeof state, typeof durationMs]
        expect(types, entry).toEqual(['string', 'string', 'number'])
        for (const figure of [tokens, costUsd, files])
          expect(figure === null || Number.isFinite(figure), entry).toBe(true)
      }
    }
})
