// The recorded runs of agent CLIs.
import { mkdtempSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import type { ProviderName, RecordedEnd } from '..'

const streams = join(__dirname, '../fixtures/streams')

interface Recorded {
  stdout: string[]
  end: RecordedEnd
  expected: { ok: boolean; events: object[]; result: object; error?: { code: string } }
}

export const recordedProviders = readdirSync(streams).map((file) => basename(file, '.json') as ProviderName)

/** The recorded runs of a CLI, by their names. */
export const recordingsOf = (provider: string): Record<string, Recorded> =>
  JSON.parse(readFileSync(join(streams, `${provider}.json`), 'utf8')) as Record<string, Recorded>

export const stdoutOf = (provider: string, name: string): string =>
  recordingsOf(provider)[name]!.stdout.join('\n')

/** The same as a file. */
export function recordedStream(provider: string, name: string): string {
  const file = join(mkdtempSync(join(tmpdir(), 'recorded-')), `${name}.jsonl`)
  writeFileSync(file, stdoutOf(provider, name))
  return file
}
