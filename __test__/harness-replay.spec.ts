// Recorded runs.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { describe, expect, it } from 'vitest'
import { replay, replayFile, type ProviderName, type RecordedEnd } from '..'
import { command } from './cli-command'
import { done, failure, folder, said, session } from './played-agent'
import { recordedProviders, recordedStream, recordingsOf } from './recorded-stream'

describe('replay', () => {
  it.each(recordedProviders)('%s: every recording yields its events and its verdict', (provider) => {
    const recordings = Object.entries(recordingsOf(provider))
    expect(recordings.length).toBeGreaterThanOrEqual(13)
    for (const [name, { stdout, end, expected }] of recordings) {
      const { ok, events, result, error } = replay(provider, { stdout: stdout.join('\n'), ...end })
      expect({ ok, events, result }, `${provider}/${name}`).toEqual({
        ok: expected.ok,
        events: expected.events,
        result: expected.result,
      })
      expect(error?.code, name).toBe(expected.error?.code)
    }
  })

  it('reads a file as it reads what is in memory', async () => {
    for (const provider of recordedProviders) {
      const file = recordedStream(provider, 'plain')
      const inMemory = replay(provider, { stdout: readFileSync(file), exitCode: 0 })
      expect(await replayFile(provider, file, { exitCode: 0 })).toEqual(inMemory)
    }
    expect(await failure(replayFile('codex', '/no/such/file'))).toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringMatching(/^file: \/no\/such\/file could not be read/),
    })
    const wrong = replayFile('codex', 'x', { exitCode: 'one' } as unknown as RecordedEnd)
    expect(await failure(wrong)).toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringMatching(/^exitCode: /),
    })
  })

  it('of 200 MB that come through a pipe keeps no more than it tells', { timeout: 300_000 }, async () => {
    // What the process had in memory at most, told as it ends. It was 480 MiB, of 400 MB too, where 1700 were of reading it whole.
    const probe = join(folder, 'probe.cjs')
    const peak = join(folder, 'peak')
    writeFileSync(
      probe,
      `process.on('exit', () => require('fs').writeFileSync(${JSON.stringify(peak)}, String(process.resourceUsage().maxRSS)))`,
    )
    const child = spawn(process.execPath, ['--require', probe, command, 'replay', 'codex', '-', '--json'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    const item = { id: 'c', type: 'command_execution', command: 'cat', status: 'completed', exit_code: 0 }
    const line = { type: 'item.completed', item: { ...item, aggregated_output: 'x'.repeat(1 << 20) } }
    const chunk = Buffer.from(`${JSON.stringify(line)}\n`)
    const begun = [session, { line: { type: 'turn.started' } }].map(({ line }) => JSON.stringify(line))
    const ended = [said('Hello.'), done].map(({ line }) => JSON.stringify(line))
    const input = function* () {
      yield `${begun.join('\n')}\n`
      for (let count = 0; count < 200; count++) yield chunk
      yield `${ended.join('\n')}\n`
    }
    let told = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => (told = (told + text).slice(-4096)))
    const exit = once(child, 'exit')
    await pipeline(Readable.from(input()), child.stdin)
    expect((await exit)[0]).toBe(0)
    const verdict = JSON.parse(told.trim().split('\n').at(-1)!)
    expect(verdict).toMatchObject({ ok: true, result: { text: 'Hello.', toolCalls: 200 } })
    expect(Number(readFileSync(peak, 'utf8')) / 1024, 'MiB').toBeLessThan(768)
  })

  it('lets the end of turn decide where the end of the process is unknown', () => {
    const stdout = [session, said('Hello.'), done].map(({ line }) => JSON.stringify(line)).join('\n')
    expect(replay('codex', { stdout })).toMatchObject({ ok: true, result: { text: 'Hello.' } })
    expect(replay('codex', { stdout: '' })).toMatchObject({ ok: false, error: { code: 'AGENT_TRUNCATED' } })
    expect(() => replay('codx' as ProviderName, { stdout })).toThrow('did you mean codex')
  })
})
