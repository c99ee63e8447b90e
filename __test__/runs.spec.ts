// Records: listed, pruned, and shown by the command. They are written as docs/record.md says, except for those of real runs.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { Harness, listRuns, pruneRuns, run, spawn, type ListRunsOptions, type RunSummary } from '..'
import { scriptedAgent } from '../entries/testing.js'
import { sheepdog } from './cli-command'
import { answer, command as toolCommand, failure, played, said, session, tool } from './played-agent'

const base = mkdtempSync(join(tmpdir(), 'runs-spec-'))
afterAll(() => rmSync(base, { recursive: true, force: true }))
let folder: string
let count = 0
beforeEach(() => mkdirSync((folder = join(base, `records-${count++}`))))

const day = 86_400_000
/** Id of a host that ran here and is gone: that of this process with another pid. */
async function goneHost(): Promise<object> {
  const { record } = await run('true', [], { record: base })
  const { host } = JSON.parse(readFileSync(join(record!.folder, 'run.json'), 'utf8'))
  return { ...host, id: host.id.replace(`-${process.pid}-`, '-4194999-') }
}

/** A record whose run ended so many days ago; `end: null`: it has no end. */
function write(
  id: string,
  {
    daysAgo = 0,
    start = {},
    end = {},
    bytes = 100,
  }: { daysAgo?: number; start?: object; end?: object | null; bytes?: number } = {},
): string {
  const path = join(folder, id)
  mkdirSync(path, { recursive: true })
  const startedAtMs = Date.now() - daysAgo * day - 1000
  const fields = { version: 1, kind: 'turn', name: id, provider: 'codex', startedAtMs, ...start }
  writeFileSync(join(path, 'run.json'), JSON.stringify(fields))
  writeFileSync(join(path, 'stdout'), 'x'.repeat(bytes))
  const ended = { ok: true, endedAtMs: startedAtMs + 1000, ...end }
  if (end) writeFileSync(join(path, 'end.json'), JSON.stringify(ended))
  return path
}

/** Values of other types than a record has. */
const odd = [5, 'x', true, null, [1], { a: 1 }, []]
const startNames = ['name', 'provider', 'prompt', 'command', 'args', 'model', 'cwd', 'resume', 'host']
const endNames = ['ok', 'endedAtMs', 'durationMs', 'failedPrompts', 'lastFailure', 'exitCode', 'signal']
endNames.push('error', 'record', 'usage', 'result')

async function listed(options?: ListRunsOptions): Promise<RunSummary[]> {
  const runs: RunSummary[] = []
  for await (const run of listRuns(folder, options)) runs.push(run)
  return runs
}
const names = () => readdirSync(folder).sort()

describe('listRuns', () => {
  it('tells state, error and usage of each run, the latest first', async () => {
    const usage = { inputTokens: 10, outputTokens: 3, cachedInputTokens: 0, costUsd: 0.5 }
    write('a', { end: { result: { attempts: 2, usage } } })
    write('b', { end: { ok: false, error: { code: 'AGENT_FAILED', kind: 'auth', message: 'No key.' } } })
    write('c', { end: { ok: false, error: { code: 'AGENT_IDLE', message: 'Silent.' } } })
    write('d', {
      start: { kind: 'run', name: null, command: 'make', args: ['all'], provider: undefined },
      end: { exitCode: 2, usage: { userMs: 1, systemMs: 1, maxRssBytes: 1 } },
    })
    write('e', { start: { host: await goneHost() }, end: null })
    const lastFailure = { code: 'AGENT_FAILED', kind: 'quota', message: 'Used up.' }
    write('f', { start: { kind: 'session' }, end: { failedPrompts: 1, lastFailure } })
    const all = await listed()
    expect(all.find(({ id }) => id === 'd')).not.toHaveProperty('usage')
    expect(all).toMatchObject([
      { id: 'f', kind: 'session', state: 'failed', failedPrompts: 1, error: lastFailure },
      { id: 'e', state: 'lost' },
      { id: 'd', kind: 'run', state: 'failed', name: 'make all', command: 'make', exitCode: 2 },
      { id: 'c', state: 'killed', error: { code: 'AGENT_IDLE' } },
      { id: 'b', state: 'failed', error: { code: 'AGENT_FAILED', kind: 'auth', message: 'No key.' } },
      {
        id: 'a',
        folder: join(folder, 'a'),
        state: 'done',
        provider: 'codex',
        durationMs: 1000,
        attempts: 2,
        usage,
      },
    ])
  })

  it('filters by state, agent, time and number', async () => {
    write('a', { daysAgo: 9 })
    write('b', { start: { provider: 'qwen' }, end: { ok: false } })
    write('c')
    const ids = async (options: ListRunsOptions) => (await listed(options)).map(({ id }) => id)
    expect(await ids({ state: 'failed' })).toEqual(['b'])
    expect(await ids({ state: ['failed', 'done'] })).toEqual(['c', 'b', 'a'])
    expect(await ids({ provider: 'codex' })).toEqual(['c', 'a'])
    expect(await ids({ since: new Date(Date.now() - day) })).toEqual(['c', 'b'])
    expect(await ids({ limit: 2 })).toEqual(['c', 'b'])
  })

  it('passes over what is no record, and follows no link', async () => {
    const outside = mkdtempSync(join(base, 'outside-'))
    writeFileSync(join(outside, 'run.json'), '{"kind":"turn"}')
    symlinkSync(outside, join(folder, 'link'))
    mkdirSync(join(folder, 'empty'))
    mkdirSync(join(folder, 'damaged'))
    writeFileSync(join(folder, 'damaged', 'run.json'), '{"kind":')
    write('a')
    expect((await listed()).map(({ id }) => id)).toEqual(['a'])
    await pruneRuns(folder, { olderThanMs: 0 })
    expect(names()).toEqual(['damaged', 'empty', 'link'])
    expect(existsSync(join(outside, 'run.json'))).toBe(true)
  })

  it('shows a record with fields of other types as far as it can be read, and all others', async () => {
    const everywhere = (value: unknown) => ({
      start: Object.fromEntries(startNames.map((name) => [name, value])),
      end: Object.fromEntries(endNames.map((name) => [name, value])),
    })
    for (const [at, value] of odd.entries()) {
      const { start, end } = everywhere(value)
      write(`a${at}`, { start: { ...start, kind: 'turn' }, end })
      const result = { text: value, model: value, attempts: value, usage: value }
      const error = { code: value, message: value, kind: value }
      const usage = { inputTokens: value, outputTokens: value, cachedInputTokens: 1, costUsd: value }
      write(`b${at}`, { start: { kind: 'session' }, end: { result, error, usage } })
    }
    write('c')
    const ids = (await listed()).map(({ id }) => id)
    expect(ids).toEqual([...odd.flatMap((_, at) => [`a${at}`, `b${at}`]), 'c'].sort().reverse())
    const { status, stdout } = await sheepdog(['runs', folder])
    expect({ status, lines: stdout.split('\n').filter((line) => /^[abc]\d* /.test(line)).length }).toEqual({
      status: 0,
      lines: ids.length,
    })
  })

  it('refuses a folder that is not there, or is one record', async () => {
    const problem = async (path: string) => (await failure(listRuns(path).next())).message
    expect(await problem(join(folder, 'none'))).toMatch(/^folder: .* does not exist$/)
    expect(await problem(write('a'))).toMatch(/is the record of one run: pass the folder above it$/)
    const wrong = { state: 'faild' } as unknown as ListRunsOptions
    expect((await failure(listRuns(folder, wrong).next())).message).toMatch(/^state: .*did you mean "failed"/)
  })
})

describe('pruneRuns', () => {
  it('removes the others when one cannot be removed, and says why', async () => {
    for (const id of ['a', 'b', 'c']) write(id, { daysAgo: 9 })
    // Its name is taken, as after a backup was restored.
    const taken = () => mkdirSync(join(folder, '.pruned-a/rest'), { recursive: true })
    taken()
    const pruned = await pruneRuns(folder, { olderThanMs: 0 })
    expect(pruned).toMatchObject({ runs: 2, problems: [expect.stringContaining('.pruned-a')] })
    expect(readdirSync(folder)).toEqual(['a'])
    taken()
    const shown = await sheepdog(['runs', 'prune', folder, '--older', '0s'])
    expect(shown).toMatchObject({ status: 1, stdout: 'removed 0 runs (0 B)\n' })
    expect(shown.stderr).toMatch(/^sheepdog runs: not removed: .*\.pruned-a/)
    expect(await pruneRuns(folder, { olderThanMs: 0 })).toMatchObject({ runs: 1 })
    expect(readdirSync(folder)).toEqual([])
  })

  it('removes a record in which its program made a path longer than the system takes', async () => {
    const script = `
      process.chdir(require('path').join(${JSON.stringify(folder)}, require('fs').readdirSync(${JSON.stringify(folder)})[0]))
      for (let level = 0; level < 300; level++) {
        require('fs').mkdirSync('x'.repeat(20))
        process.chdir('x'.repeat(20))
      }`
    await run(process.execPath, ['-e', script], { record: folder, reject: true })
    expect((await pruneRuns(folder, { olderThanMs: 0 })).runs).toBe(1)
    expect(readdirSync(folder)).toEqual([])
  })

  it('removes what ended long enough ago', async () => {
    for (const [id, daysAgo] of [
      ['a', 9],
      ['b', 8],
      ['c', 1],
    ] as const)
      write(id, { daysAgo })
    const would = await pruneRuns(folder, { olderThanMs: 7 * day, dryRun: true })
    expect(names()).toEqual(['a', 'b', 'c'])
    expect(await pruneRuns(folder, { olderThanMs: 7 * day })).toEqual(would)
    expect(would.runs).toBe(2)
    expect(would.bytes).toBeGreaterThan(200)
    expect(names()).toEqual(['c'])
  })

  it('removes the oldest until the rest has the size', async () => {
    for (const id of ['a', 'b', 'c']) write(id, { bytes: 10_000 })
    expect(await pruneRuns(folder, { maxBytes: 25_000 })).toMatchObject({ runs: 1 })
    expect(names()).toEqual(['b', 'c'])
  })

  it('removes only the states that are named, and needs some limit', async () => {
    write('a')
    write('b', { end: { ok: false } })
    write('c', { start: { host: await goneHost() }, end: null })
    expect(await pruneRuns(folder, { states: ['failed'] })).toMatchObject({ runs: 1 })
    expect(names()).toEqual(['a', 'c'])
    expect(await failure(pruneRuns(folder, {}))).toMatchObject({ code: 'INVALID_OPTION' })
    const { message } = await failure(pruneRuns(folder, { maxBytes: -1 }))
    expect(message).toBe('maxBytes: expected a finite number >= 0, got -1')
    const running = { olderThanMs: 0, states: ['running'] } as unknown as Parameters<typeof pruneRuns>[1]
    expect((await failure(pruneRuns(folder, running))).message).toMatch(/a run that goes on is never removed/)
  })

  it.runIf(process.platform === 'linux')(
    'never removes a run that goes on, nor one whose host is elsewhere',
    async () => {
      write('a', { start: { host: { pid: 1, id: 'no-such-host' } }, end: null })
      const running = spawn('sleep', ['60'], { record: folder })
      await expect.poll(async () => (await listed({ state: 'running' })).length).toBe(1)
      expect((await listed({ state: 'elsewhere' })).map(({ id }) => id)).toEqual(['a'])
      expect(await pruneRuns(folder, { olderThanMs: 0, maxBytes: 0 })).toEqual({ runs: 0, bytes: 0 })
      expect(names()).toHaveLength(2)
      await running.kill()
      await running.result.catch(() => {})
      expect(await pruneRuns(folder, { olderThanMs: 0 })).toMatchObject({ runs: 1 })
      expect(await pruneRuns(folder, { states: ['elsewhere'] })).toMatchObject({ runs: 1 })
      expect(names()).toEqual([])
    },
  )

  it('removes what an earlier call left half removed', async () => {
    mkdirSync(join(folder, '.pruned-a'))
    writeFileSync(join(folder, '.pruned-a', 'stdout'), 'x')
    expect(await pruneRuns(folder, { olderThanMs: 0 })).toEqual({ runs: 0, bytes: 0 })
    expect(names()).toEqual([])
  })
})

describe('sheepdog runs', () => {
  it('says in one command why a turn failed, and prunes', async () => {
    const provider = scriptedAgent([{ say: 'One.' }, { fail: 'auth' }, { say: 'Three.' }])
    const harness = new Harness({ provider, record: folder })
    for (const turn of [1, 2, 3]) await harness.run(`Prompt ${turn}`).catch(() => {})
    const { status, stdout } = await sheepdog(['runs', folder, '--failed'])
    expect(status).toBe(0)
    expect(stdout).toMatch(
      /failed .* scripted +Prompt 2\n {4}1 prompt failed: AGENT_FAILED \(auth\): .*invalid API key/,
    )
    expect(stdout).not.toContain('Prompt 1')
    const all = await sheepdog(['runs', folder, '--json', '--provider', 'scripted', '--since', '1h'])
    expect(
      all.stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).name),
    ).toEqual(['Prompt 3', 'Prompt 2', 'Prompt 1'])
    const would = await sheepdog(['runs', 'prune', folder, '--max-size', '1', '--failed', '--dry-run'])
    expect(would.stdout).toMatch(/^would remove 1 run \(/)
    expect(await sheepdog(['runs', 'prune', folder, '--older', '0s'])).toMatchObject({
      stdout: expect.stringMatching(/^removed 3 runs/),
    })
    expect(names()).toEqual([])
  })

  it('refuses options of the other form, and a prune without a limit', async () => {
    for (const [args, message] of [
      [['prune'], /prune needs --older DURATION or --max-size SIZE/],
      [['--older', '7d'], /--older is an option of prune/],
      [['prune', '--older', '7d', '--limit', '3'], /--limit is an option of the list/],
      [['--state', 'gone'], /--state: expected running, done/],
    ] as const)
      expect(await sheepdog(['runs', ...args])).toMatchObject({
        stdout: '',
        stderr: expect.stringMatching(message),
      })
  })
})

describe('sheepdog replay of a record', () => {
  const output = Array.from({ length: 40 }, (_, at) => `line ${at + 1}`).join('\n')
  const ended = { ...toolCommand, aggregated_output: output, exit_code: 1, status: 'failed' }
  const plan = [
    session,
    tool,
    { line: { type: 'item.completed', item: ended } },
    said('It failed.'),
    ...answer.slice(-1),
  ]

  it('shows prompt, times and the output of tools, clipped or whole', async () => {
    const { record } = await played(plan).run('Run it.\nThen stop.', { record: folder })
    const { stdout } = await sheepdog(['replay', record!.folder])
    expect(stdout).toMatch(/^prompt: Run it\.\n {8}Then stop\.\n/)
    expect(stdout).toMatch(/^ +[\d.]+ m?s {2}> \w+ ls$/m)
    expect(stdout).toMatch(/^ {12}line 4\n {12}\.\.\. 28 more lines \(--full shows all\)\n {12}line 33$/m)
    const { stdout: full } = await sheepdog(['replay', record!.folder, '--full'])
    expect(full).toContain('line 20\n')
    expect(full).not.toContain('more lines')
  })
})
