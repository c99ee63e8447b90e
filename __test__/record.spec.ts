// Runs and turns on record: what the files hold, that they are whole, and that a record replayed says what was said then.
import { spawn as spawnChild } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import { type AgentEvent, type SheepdogError, type TurnOptions, replayRecord, run, spawn } from '..'
import { sheepdog, started } from './cli-command'
import { answer, command, counting, done, failed, failure, played, said, session, tool } from './played-agent'

const records = mkdtempSync(join(tmpdir(), 'record-spec-'))
afterAll(() => rmSync(records, { recursive: true, force: true }))

const read = (folder: string, name: string) => readFileSync(join(folder, name), 'utf8')
const json = (folder: string, name: string) => JSON.parse(read(folder, name))
/** The lines of `times`: [ms, word, number]. */
const times = (folder: string) =>
  read(folder, 'times')
    .trim()
    .split('\n')
    .map((line) => line.split(' '))
    .map(([ms, word, number]) => [Number(ms), word, Number(number)] as const)

describe('a run on record', () => {
  it('has what ran, what it printed and when, and how it ended', async () => {
    const script = 'echo one; sleep 0.2; echo two >&2; sleep 0.2; printf "\\377three"; exit 3'
    const result = await run('sh', ['-c', script], { record: records, name: 'the first' })
    const { folder } = result.record!
    expect(result.record).toEqual({ folder, leftOutBytes: 0 })
    expect(folder).toMatch(/\/\d{4}-\d\d-\d\dT\d{6}\.\d{3}Z-[0-9a-f]{6}$/)
    expect(json(folder, 'run.json')).toMatchObject({
      version: 1,
      kind: 'run',
      name: 'the first',
      command: 'sh',
      args: ['-c', script],
      cwd: process.cwd(),
      host: { pid: process.pid },
    })
    expect(readFileSync(join(folder, 'stdout'))).toEqual(Buffer.from('one\n\xffthree', 'latin1'))
    expect(read(folder, 'stderr')).toBe('two\n')
    const lines = times(folder)
    expect(lines.map(([, word, number]) => [word, number])).toEqual([
      ['pid', result.pid],
      ['stdout', 4],
      ['stderr', 4],
      ['stdout', 6],
    ])
    // Times are those of the host's reads: a busy machine may read the first line late.
    expect(lines[3]![0] - lines[1]![0]).toBeGreaterThanOrEqual(150)
    const end = json(folder, 'end.json')
    expect(end).toMatchObject({
      exitCode: 3,
      signal: null,
      pid: result.pid,
      stdoutBytes: 10,
      straysKilled: 0,
    })
    expect(end).not.toHaveProperty('stdout')
    expect(statSync(folder).mode & 0o777).toBe(0o700)
    for (const file of readdirSync(folder))
      expect(statSync(join(folder, file)).mode & 0o777, file).toBe(0o600)
  })

  it('holds no secret, neither of the environment nor torn over chunks', async () => {
    const script = 'printf "key is topsec"; sleep 0.05; printf "ret-99\\n"; echo "$API_KEY" >&2'
    const { record } = await run('sh', ['-c', script, 'topsecret-99'], {
      record: records,
      env: { API_KEY: 'topsecret-99' },
    })
    expect(read(record!.folder, 'stdout')).toBe('key is [REDACTED]\n')
    for (const file of readdirSync(record!.folder))
      expect(read(record!.folder, file)).not.toContain('topsecret')
    expect(json(record!.folder, 'run.json')).toMatchObject({
      env: ['API_KEY'],
      args: ['-c', script, '[REDACTED]'],
    })
  })

  it('says of a folder that can not be written, before anything is started', async () => {
    const trace = join(records, 'started')
    for (const record of ['/proc/records', __filename]) {
      const error = await failure(run('touch', [trace], { record }))
      expect(error.code).toBe('INVALID_OPTION')
      expect(error.message).toMatch(
        /^record: cannot create a record in .*; choose a folder that you can write to$/,
      )
    }
    expect(existsSync(trace)).toBe(false)
    await expect(run('true', [], { record: 7 as never })).rejects.toThrow(/^record: /)
    await expect(run('true', [], { record: records, maxRecordBytes: 0 })).rejects.toThrow(/^maxRecordBytes: /)
  })

  it('leaves no folder whose beginning could not be written', async () => {
    const folder = join(records, 'no-room')
    const index = JSON.stringify(join(import.meta.dirname, '../index.js'))
    const code = `require(${index}).run('true', [], { record: process.argv[1] }).catch(({ code }) => console.log(code))`
    const { stdout } = await run('sh', [
      '-c',
      'ulimit -f 0; exec "$@"',
      'sh',
      process.execPath,
      '-e',
      code,
      folder,
    ])
    expect(stdout).toBe('PROCESS_SPAWN_FAILED\n')
    expect(readdirSync(folder)).toEqual([])
  })

  it('goes on without a record that is taken away, and says so', async () => {
    const go = join(records, 'go')
    const script = `echo one; until [ -e ${go} ]; do sleep 0.01; done; echo two`
    const child = spawn('sh', ['-c', script], { record: join(records, 'away') })
    for await (const { text } of child) if (text === 'one') break
    rmSync(join(records, 'away'), { recursive: true })
    writeFileSync(go, '')
    const { stdout, record } = await child.result
    expect(stdout).toBe('one\ntwo\n')
    expect(record!.problem).toMatch(/could not be written: No such file or directory/)
    expect(record!.leftOutBytes).toBeGreaterThan(0)
  })

  it('keeps the end of what is more than may be kept, and says how much is missing', async () => {
    const { stdoutBytes, record } = await run('sh', ['-c', 'seq 1 900000'], {
      record: records,
      maxRecordBytes: 100_000,
    })
    const kept = read(record!.folder, 'stdout')
    const [head, tail] = kept.split(`\n[... ${record!.leftOutBytes} bytes left out ...]\n`)
    expect(head).toMatch(/^1\n2\n3\n/)
    expect(tail).toMatch(/^\d{6}\n(.|\n)*\n900000\n$/)
    expect(head!.length + tail!.length + record!.leftOutBytes).toBe(stdoutBytes)
  })

  it('loses nothing of 50 MB in a flood', async () => {
    const { stdoutBytes, record } = await run(
      'sh',
      ['-c', 'yes 0123456789012345678901234567890 | head -c 50000000'],
      {
        record: records,
      },
    )
    expect(record!.leftOutBytes).toBe(0)
    expect(statSync(join(record!.folder, 'stdout')).size).toBe(stdoutBytes)
    const told = times(record!.folder).filter(([, word]) => word === 'stdout')
    expect(told.reduce((sum, [, , bytes]) => sum + bytes, 0)).toBe(stdoutBytes)
  })

  it('has an end when it was stopped', async () => {
    const error = (await failure(run('sleep', ['60'], { record: records, timeoutMs: 1000 }))) as SheepdogError
    const { folder } = (error.result as { record: { folder: string } }).record
    expect(json(folder, 'end.json').error).toMatchObject({ code: 'PROCESS_TIMED_OUT' })
    expect(await sheepdog(['replay', folder])).toMatchObject({
      status: 1,
      stderr: expect.stringMatching(/PROCESS_TIMED_OUT/),
    })
  })
})

const schema = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] }
const quick = { baseDelayMs: 1, maxDelayMs: 1 }
const overloaded = failed('stream disconnected before completion: 503 overloaded')
const turns: [name: string, plan: object[], options: TurnOptions][] = [
  [
    'a good turn',
    [
      session,
      tool,
      { line: { type: 'item.completed', item: { ...command, exit_code: 0, status: 'completed' } } },
      said('Hello.'),
      done,
    ],
    {},
  ],
  ['one that failed', [session, failed('Incorrect API key provided: 401')], {}],
  ['one that was cut off', [session, said('Hel')], {}],
  ['one that crashed', [session, { stderr: 'Segmentation fault\n' }, { signal: 'SIGSEGV' }], {}],
  ['one that fell silent', [session, tool, { hang: true }], { toolIdleTimeoutMs: 300 }],
  ['one that took too long', [session, { hang: true }], { timeoutMs: 300 }],
  ['one that hung after its end', [...answer, { hang: true }], {}],
  ['a second attempt', [counting([session, overloaded, { exit: 1 }], answer)], { retry: quick }],
  ['an answer that fits', [session, said('{"n": 4}'), done], { schema }],
  ['an answer that never fits', [session, said('{"n": "four"}'), done], { schema }],
  ['another session', answer, { resume: 't-2' }],
  ['a budget that was used up', [...answer, { hang: true }], { maxTokens: 5 }],
]

describe('a turn on record', () => {
  it.each(turns)('says the same when it is replayed: %s', async (_, plan, options) => {
    const ended = await played(plan)
      .run('Say hello.', { ...options, record: records })
      .catch((error: SheepdogError) => error)
    const error = ended instanceof Error ? (ended as SheepdogError & { kind?: string }) : undefined
    const result = (error ? error.result : ended) as Awaited<ReturnType<ReturnType<typeof played>['run']>>
    const { folder } = result.record!
    const { turn, unfinished } = await replayRecord(folder)
    expect(unfinished).toBeNull()
    expect(
      turn!.error && { code: turn!.error.code, kind: turn!.error.kind, message: turn!.error.message },
    ).toEqual(error && { code: error.code, kind: error.kind, message: error.message })
    for (const field of [
      'text',
      'structured',
      'sessionId',
      'usage',
      'turns',
      'toolCalls',
      'attempts',
      'queuedMs',
      'durationMs',
      'recovered',
    ] as const)
      expect(turn!.result[field], field).toEqual(result[field])
    const { status, stdout } = await sheepdog(['replay', folder])
    expect(status).toBe(error ? 1 : 0)
    expect(stdout).toContain(error ? error.code : 'ok: ')
  })

  it('has its events with their times, and a folder for each attempt', async () => {
    const plan = [counting([session, overloaded, { exit: 1 }], answer)]
    const turn = played(plan, { retry: quick }).start('Say hello.\nTwice.', {
      record: records,
      redact: ['Hello'],
    })
    const told: AgentEvent[] = []
    for await (const event of turn) told.push(event)
    const { record, text } = await turn.result
    const { folder } = record!
    expect(text).toBe('[REDACTED].')
    expect(json(folder, 'run.json')).toMatchObject({
      kind: 'turn',
      name: 'Say hello. Twice.',
      provider: 'codex',
    })
    const lines = read(folder, 'events.jsonl')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(lines.filter(({ event }) => event).map(({ event }) => event)).toEqual(told)
    expect(lines.filter(({ judged }) => judged).map(({ attempt }) => attempt)).toEqual([1, 2])
    expect(lines.map(({ ms }) => ms)).toEqual(lines.map(({ ms }) => ms).sort((a, b) => a - b))
    expect(readdirSync(join(folder, 'attempts'))).toEqual(['1', '2'])
    expect(read(join(folder, 'attempts/1'), 'stdout')).toContain('overloaded')
    expect(read(join(folder, 'attempts/2'), 'stdout')).toContain('[REDACTED].')
    expect(json(folder, 'end.json')).toMatchObject({ ok: true, result: { text: '[REDACTED].', attempts: 2 } })
  })

  it('tells what only the harness knew as it was', async () => {
    const missing = await failure(played([], { binary: '/no/such/agent' }).run('Hi.', { record: records }))
    expect(missing.code).toBe('AGENT_NOT_FOUND')
    const folder = missing.result.record.folder
    expect((await replayRecord(folder)).turn).toMatchObject({ ok: false, error: { code: 'AGENT_NOT_FOUND' } })
    const turn = played([session, { hang: true }]).start('Hi.', { record: records })
    for await (const event of turn) if (event.type === 'session') break
    void turn.abort()
    const aborted = await failure(turn.result)
    expect((await replayRecord(aborted.result.record.folder)).turn!.error!.code).toBe('AGENT_ABORTED')
    expect((await failure(played(answer).run('Hi.', { record: '/proc/records' }))).message).toMatch(
      /^record: cannot create a record/,
    )
  })
})

describe('a host that is killed in mid-turn', () => {
  it('leaves all that was told a quarter of a second before, and a record that is called unfinished', async () => {
    const parent = join(records, 'killed')
    const plan = [session, said('first'), { wait: 300 }, said('second'), tool, { hang: true }]
    const fixture = join(__dirname, '../fixtures/bin/host-records.mjs')
    const host = spawnChild(process.execPath, [fixture, parent, JSON.stringify(plan)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    for await (const line of createInterface(host.stdout)) if (line.includes('tool_start')) break
    // What the documentation promises; it is no wait for anything to happen in this process.
    await new Promise((resolve) => setTimeout(resolve, 250))
    host.kill('SIGKILL')
    await once(host, 'exit')
    const folder = join(parent, readdirSync(parent)[0]!)
    expect(existsSync(join(folder, 'end.json'))).toBe(false)
    const { unfinished, turn } = await replayRecord(folder)
    expect(unfinished).toBe('host-gone')
    expect(turn!.events.map(({ type }) => type)).toEqual(['session', 'text', 'text', 'tool_start'])
    expect(turn!.ok).toBe(false)
    const { status, stdout } = await sheepdog(['replay', folder])
    expect(status).toBe(1)
    expect(stdout).toMatch(/unfinished: its host was gone before it ended/)
    // The attempt's own folder says the same.
    expect((await replayRecord(join(folder, 'attempts/1'))).unfinished).toBe('host-gone')
  })

  it('is not replayed without a judgement that has another form', async () => {
    const { record } = await played(answer).run('Hi.', { record: records })
    const events = join(record!.folder, 'events.jsonl')
    const lines = readFileSync(events, 'utf8')
    writeFileSync(events, lines.replace('"judged":{', '"judged":7,"was":{'))
    const error = await failure(replayRecord(record!.folder))
    expect(error.code).toBe('INVALID_OPTION')
    expect(error.message).toMatch(/^folder: .* has a judgement of attempt 1 in another form: /)
    // The end of the file is cut off when the host is killed: that is no fault of the record.
    writeFileSync(events, lines.replace(/"judged":\{.*/s, '"judged":{"re'))
    expect((await replayRecord(record!.folder)).turn!.ok).toBe(true)
  })

  it('is no record without a run.json', async () => {
    const error = await failure(replayRecord(records))
    expect(error.code).toBe('INVALID_OPTION')
    expect(error.message).toMatch(/is not a record: it has no run.json: name one of the folders in it/)
    const damaged = mkdtempSync(join(records, 'damaged-'))
    writeFileSync(join(damaged, 'run.json'), '{"kind":"tu')
    expect((await failure(replayRecord(damaged))).message).toMatch(
      /is not a record: its run.json cannot be read$/,
    )
  })
})

describe('the record of a session, replayed by the command', () => {
  function sessionOf(events: string): string {
    const folder = mkdtempSync(join(records, 'session-'))
    writeFileSync(
      join(folder, 'run.json'),
      JSON.stringify({ version: 1, kind: 'session', provider: 'codex' }),
    )
    writeFileSync(join(folder, 'events.jsonl'), events)
    return folder
  }
  const line = (text: string) => JSON.stringify({ ms: 1, event: { type: 'text', text, delta: false } })

  it('shows what came before a line that was cut off anywhere', async () => {
    const cut = line('never whole')
    for (const at of [1, cut.length - 2, cut.length - 1]) {
      const { stdout, stderr } = await sheepdog([
        'replay',
        sessionOf(`${line('first')}\n${cut.slice(0, at)}`),
      ])
      expect({ stdout, stderr }).toEqual({
        stdout: expect.stringMatching(/^ +1 ms {2}first\nunfinished: /),
        stderr: '',
      })
    }
  })

  it.runIf(process.platform === 'linux')('waits for a slow reader, and ends without one', async () => {
    const folder = sessionOf(`${line('x'.repeat(100_000))}\n`.repeat(1000))
    writeFileSync(join(folder, 'end.json'), JSON.stringify({ ok: true }))
    const { child, exit } = started(['replay', '--json', folder])
    const bytesRead = () => {
      const found = /^rchar: (\d+)$/m.exec(readFileSync(`/proc/${child.pid}/io`, 'utf8'))
      return Number(found![1])
    }
    // Nobody reads: it stands still.
    for (let still = 0, last = -1; still < 10;) {
      const now = bytesRead()
      still = now > 1_000_000 && now === last ? still + 1 : 0
      last = now
      await sleep(50)
    }
    expect(bytesRead()).toBeLessThan(32_000_000)
    child.stdout.destroy()
    expect(await exit).toEqual({ status: 141, signal: null })
  })
})
