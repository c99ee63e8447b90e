// What an agent CLI printed in a recorded run, as a file.
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export function recordedStream(provider: string, name: string): string {
  const recordings = JSON.parse(readFileSync(join(__dirname, `../fixtures/streams/${provider}.json`), 'utf8'))
  const file = join(mkdtempSync(join(tmpdir(), 'recorded-')), `${name}.jsonl`)
  writeFileSync(file, recordings[name].stdout.join('\n'))
  return file
}
