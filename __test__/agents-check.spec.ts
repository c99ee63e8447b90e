import { expect, it } from 'vitest'
import { agents } from '../fixtures/agents.mjs'
import seen from '../fixtures/agents-seen.json'
import { changes } from '../trials/agents/change.mjs'

const table = (version: string, cases: Record<string, string>) => ({ codex: { version, cases } })

it('what is new in a table of agents is told: versions, words, cases, agents', () => {
  const before = table('1.0.0', { answer: 'ok', quota: 'quota', gone: 'ok' })
  const now = {
    ...table('1.1.0', { answer: 'ok', quota: 'rate_limit', new: 'ok' }),
    pi: { version: '2.0.0', cases: { answer: 'ok' } },
  }
  expect(changes(before, now)).toEqual([
    '+ codex: 1.0.0 -> 1.1.0',
    '! codex, quota: quota -> rate_limit',
    '+ codex, new: ok (a new case)',
    '- codex, gone: no such case any more',
    '+ pi 2.0.0: not seen before',
  ])
  expect(changes(before, before)).toEqual([])
})

it('what was seen is of agents that are known, and no case of it failed', () => {
  expect(Object.keys(seen).sort()).toEqual(Object.keys(agents).sort())
  for (const { cases } of Object.values(seen)) expect(Object.values(cases)).not.toContain('**failed**')
})
