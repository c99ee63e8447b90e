// A race on the page of runs: each of its turns shows all of them.
import { expect, it } from 'vitest'
import { Harness, race } from '..'
import { RecordSource } from '../dist/cli/view/record_source'
import { plainFolder, repository, worker } from './repository'

it('is on record, and each of its turns shows all entries side by side', async () => {
  const top = repository()
  const record = plainFolder()
  const { entries } = await race('Answer.', {
    cwd: top,
    agents: [worker('echo wrong > answer'), worker('exit 3'), worker('echo right > answer; echo x > other')],
    verify: ['grep', '-q', 'right', 'answer'],
    concurrency: 1,
    record,
  })
  const source = await RecordSource.open(record)
  const runs = (await source.list()).map(({ id }) => id).reverse()
  expect(runs).toHaveLength(3)
  for (const id of runs) {
    const { race: shown } = (await source.detail(id))!
    expect(shown).toMatchObject([
      { run: runs[0], provider: 'codex', state: 'failed-verify', reason: 'verify ended with exit status 1' },
      { run: runs[1], state: 'failed', reason: expect.stringContaining('AGENT_'), files: 0 },
      { run: runs[2], state: 'won', reason: null, tokens: 13, costUsd: null, files: 2 },
    ])
    expect(shown!.map(({ durationMs }) => durationMs)).toEqual(entries.map(({ durationMs }) => durationMs))
  }
  for (const { changes } of entries) await changes?.discard()
  await new Harness({ ...worker('true'), cwd: top }).run('x', { record })
  const alone = (await source.list()).find(({ id }) => !runs.includes(id))!
  expect(await source.detail(alone.id)).toMatchObject({ race: null })
})
