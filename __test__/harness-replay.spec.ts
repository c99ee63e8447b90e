// Recorded runs.
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { replay, type ProviderName } from '..'
import { done, said, session } from './played-agent'

describe('replay', () => {
  const streams = join(__dirname, '..', 'fixtures', 'streams')

  it.each(readdirSync(streams))('%s: every recording yields its events and its verdict', (provider) => {
    const names = readdirSync(join(streams, provider)).filter((name) => name.endsWith('.jsonl'))
    expect(names.length).toBeGreaterThanOrEqual(13)
    for (const name of names) {
      const path = (end: string) => join(streams, provider, name.replace('jsonl', end))
      const { exitCode, signal, stderr } = JSON.parse(readFileSync(path('end.json'), 'utf8'))
      const expected = JSON.parse(readFileSync(path('expected.json'), 'utf8'))
      const stdout = readFileSync(path('jsonl'))
      const { ok, events, result, error } = replay(provider as ProviderName, {
        stdout,
        stderr,
        exitCode,
        signal,
      })
      expect({ ok, events, result }, `${provider}/${name}`).toEqual({
        ok: expected.ok,
        events: expected.events,
        result: expected.result,
      })
      expect(error?.code, name).toBe(expected.error?.code)
    }
  })

  it('lets the end of turn decide where the end of the process is unknown', () => {
    const stdout = [session, said('Hello.'), done].map(({ line }) => JSON.stringify(line)).join('\n')
    expect(replay('codex', { stdout })).toMatchObject({ ok: true, result: { text: 'Hello.' } })
    expect(replay('codex', { stdout: '' })).toMatchObject({ ok: false, error: { code: 'AGENT_TRUNCATED' } })
    expect(() => replay('codx' as ProviderName, { stdout })).toThrow('did you mean codex')
  })
})
