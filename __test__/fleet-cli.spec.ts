import { describe, expect, it } from 'vitest'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sheepdog } from './cli-command'
import { hasServer, newFolder } from './fleet-worker'

const program = join(__dirname, '../cli/sheepdog.js')

describe.runIf(hasServer)('sheepdog work, submit, jobs, fleet', () => {
  const run = (...args: string[]) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], { encoding: 'utf8' })
    return { status, stdout, stderr }
  }

  it('brings a job from its submit to its result, and down again', async () => {
    const dir = join(newFolder(), 'fleet')
    const at = ['--dir', dir]
    const handlers = join(newFolder(), 'handlers.mjs')
    writeFileSync(
      handlers,
      `export default {
        sum: async (job) => { await job.emit({ type: 'warning', message: 'summing' }); return job.data.a + job.data.b },
        bad: async ({ attempt }) => { throw Object.assign(new Error(attempt === 1 ? 'no' : 'no again'), { code: 'E_NO' }) },
      }`,
    )
    const up = spawn(process.execPath, [program, 'fleet', 'up', ...at], {
      stdio: ['ignore', 'inherit', 'pipe'],
    })
    expect(`${(await once(up.stderr, 'data'))[0]}`).toContain('is up')
    const id = run('submit', '--handler', 'sum', '--data', '{"a":1,"b":2}', '--id', 'one', ...at)
    expect(id).toEqual({ status: 0, stdout: 'one\n', stderr: '' })
    expect(run('fleet', 'status', ...at).stdout).toMatch(/stuck one: no worker pulls from the queue default/)
    const worker = spawn(process.execPath, [program, 'work', '--handlers', handlers, ...at], {
      stdio: ['ignore', 'inherit', 'pipe'],
    })
    await once(worker.stderr, 'data')
    const waited = run('submit', '--handler', 'sum', '--data', '{"a":3,"b":4}', '--wait', ...at)
    expect(waited).toMatchObject({ status: 0, stdout: '7\n' })
    expect(waited.stderr).toContain('summing')
    expect(run('jobs', 'logs', 'one', '-f', ...at).stdout).toContain('summing')
    expect(JSON.parse(run('jobs', 'show', 'one', ...at).stdout)).toMatchObject({ state: 'done', result: 3 })
    const bad = run('submit', '--handler', 'bad', '--attempts', '1', '--wait', ...at)
    expect(bad).toMatchObject({ status: 1, stdout: '' })
    expect(bad.stderr).toContain('E_NO: no')
    expect(
      run('jobs', ...at)
        .stdout.trim()
        .split('\n'),
    ).toHaveLength(3)
    expect(run('jobs', 'ls', '--state', 'failed', ...at).stdout).toMatch(/failed +bad .*E_NO: no/)
    expect(run('jobs', 'show', 'nobody', ...at)).toMatchObject({ status: 1 })
    run('submit', '--handler', 'bad', '--attempts', '2', '--id', 'twice', '--wait', ...at)
    const errors = ['no', 'no again'].map((message) => ({ error: { code: 'E_NO', message }, reason: 'E_NO' }))
    expect(JSON.parse(run('jobs', 'show', 'twice', ...at).stdout)).toMatchObject({ attempts: errors })
    const listed = run('jobs', 'ls', '--json', ...at)
      .stdout.trim()
      .split('\n')
    expect(listed.map((line) => JSON.parse(line)).find(({ id }) => id === 'twice').attempts).toMatchObject(
      errors,
    )
    const prune = (...args: string[]) => run('fleet', 'prune', ...args, ...at)
    expect(prune('--older-than', '1d').stdout).toBe('removed 0 jobs and 0 objects (0 B)\n')
    expect(prune('--older-than', '0s', '--state', 'done', '--dry-run').stdout).toMatch(/^would remove 2 jobs/)
    expect(JSON.parse(prune('--older-than', '0s', '--state', 'done', '--json').stdout)).toMatchObject({
      jobs: 2,
    })
    expect(run('jobs', 'show', 'one', ...at)).toMatchObject({ status: 1 })
    expect(run('jobs', ...at).stdout).toMatch(/^\S+ +failed +bad[^\n]*\n\S+ +failed +bad[^\n]*\n$/)
    worker.kill('SIGTERM')
    expect(await once(worker, 'exit')).toEqual([0, null])
    expect(run('fleet', 'down', ...at).status).toBe(0)
    expect(run('fleet', 'down', ...at).status).toBe(1)
  })

  it('is kept up by any number of processes, and ends them and no other', async () => {
    const dir = join(newFolder(), 'fleet')
    const up = async (...args: string[]) => {
      const child = spawn(process.execPath, [program, 'fleet', 'up', ...args], {
        stdio: ['ignore', 'inherit', 'pipe'],
      })
      expect(`${(await once(child.stderr, 'data'))[0]}`).toContain('is up')
      return child
    }
    const [one, two] = [await up('--dir', dir), await up('--dir', dir)]
    const { url, token } = JSON.parse(readFileSync(join(dir, 'fleet.json'), 'utf8'))
    // The folder of a fleet on another server holds nothing but the note of this process.
    const other = join(newFolder(), 'not/there')
    const three = await up('--servers', url, '--token', token, '--dir', other)
    const ends = [one, two, three].map((child) => once(child, 'exit'))
    expect(run('fleet', 'down', '--dir', other).status).toBe(0)
    // A killed process leaves such a note, and its port belongs to another program by now.
    const stranger = createServer((socket) => socket.end('hello')).listen(0, '127.0.0.1')
    await once(stranger, 'listening')
    const { port } = stranger.address() as AddressInfo
    const stale = join(dir, 'keeper-stale.json')
    writeFileSync(stale, JSON.stringify({ port, name: 'name', token: 'token' }))
    const damaged = ['', '{"port":', 'null', '{"port":70000,"name":"name","token":"token"}']
    damaged.forEach((text, index) => writeFileSync(join(dir, `keeper-${index}.json`), text))
    expect(await sheepdog(['fleet', 'down', '--dir', dir])).toMatchObject({ status: 0, stderr: '' })
    expect(await Promise.all(ends)).toEqual([
      [0, null],
      [0, null],
      [0, null],
    ])
    expect([existsSync(stale), run('fleet', 'down', '--dir', dir).status]).toEqual([false, 1])
    stranger.close()
  })

  it('takes lines of any system, and says which ones are wrong', () => {
    const at = ['--dir', join(newFolder(), 'fleet')]
    const file = join(newFolder(), 'jobs.jsonl')
    const lines = ['{"handler":"h","id":"a"}', '', '{bad', '[1]', '{"handler":"h","at":"soon"}']
    writeFileSync(file, `\uFEFF${lines.join('\r\n')}`)
    const { status, stdout, stderr } = run('submit', '--jsonl', file, ...at)
    expect([status, stdout]).toEqual([1, 'a\n'])
    expect(stderr).toMatch(
      /line 3: invalid.*JSON.*\n.*line 4: expected an object\n.*line 5: at: expected a date/,
    )
  })

  it('says what is wrong with a command line', () => {
    const broken = join(newFolder(), 'broken.mjs')
    writeFileSync(broken, 'export default {')
    for (const [args, message] of [
      [['submit'], 'a provider and a prompt are needed'],
      [['submit', 'codex', 'x', '--at', 'soon'], '--at: expected a date'],
      [['jobs', 'kill'], 'unknown verb'],
      [['jobs', 'toString', 'a'], 'unknown verb'],
      [['jobs', 'show'], 'the id of a job is needed'],
      [['work', '--concurrency', '0'], '--concurrency: expected'],
      [['fleet', 'start'], 'expected up, status, down, pause, resume, drain, prune, schedule'],
      [['fleet', 'prune'], 'prune needs --older-than'],
      [['fleet', 'prune', '--older-than', '1d', '--state', 'running'], '--state: expected done'],
      [['jobs', '--state', 'don'], 'cancelled or dead, got "don"; did you mean done?'],
      [['submit', '--jsonl', tmpdir()], 'is a folder, not a file'],
      [['work', '--handlers', 'nowhere.mjs'], '--handlers: nowhere.mjs does not exist'],
      [['work', '--handlers', broken], `--handlers: ${broken} can't be loaded: `],
      // These options would be passed over in silence.
      [['jobs', 'retry', 'a', '--limit', '1'], '--limit is an option of ls, not of retry'],
      [['fleet', 'pause', 'q', '--older-than', '1d'], '--older-than is an option of prune, not of pause'],
      [['submit', '--jsonl', 'jobs.jsonl', '--priority', '3'], "--priority can't be given with --jsonl"],
      [['submit', '--handler', 'sum', '--model', 'm'], "--model can't be given with --handler"],
      [['submit', '--handler', 'sum', 'codex', 'x'], '--handler: no PROVIDER can be given with it'],
      [['submit', 'codex', 'x', '--data', '1'], "--data can't be given with a PROVIDER"],
    ] as const) {
      const { status, stderr } = run(...args)
      expect([status, stderr]).toEqual([2, expect.stringContaining(message)])
    }
  })
})
