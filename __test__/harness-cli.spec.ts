// The commands agent, replay and doctor, as a shell runs them.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { recordedStream } from './recorded-stream'

const root = join(__dirname, '..')
const folder = mkdtempSync(join(tmpdir(), 'harness-cli-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** A folder for PATH whose `codex` plays this plan. */
function codexOf(plan: object[]): string {
  const bin = mkdtempSync(join(folder, 'bin-'))
  const file = join(bin, 'codex')
  const script = `import(${JSON.stringify(join(root, 'fixtures/bin/agent.mjs'))})`
  writeFileSync(
    join(bin, 'play.cjs'),
    `process.argv.splice(2, 0, ${JSON.stringify(JSON.stringify(plan))}); ${script}\n`,
  )
  writeFileSync(file, `#!/bin/sh\nexec "${process.execPath}" "${join(bin, 'play.cjs')}" "$@"\n`)
  chmodSync(file, 0o755)
  return bin
}

/** With its stdout in a file. */
function sheepdogTo(file: string, args: string[], path = '') {
  const PATH = [path, dirname(process.execPath), '/usr/bin', '/bin'].filter(Boolean).join(':')
  const words = [process.execPath, join(root, 'cli/sheepdog.js'), ...args.filter(Boolean)]
  return spawnSync('sh', ['-c', `exec "$@" > ${file}`, 'sh', ...words], {
    encoding: 'utf8',
    cwd: folder,
    env: { PATH, HOME: folder, TMPDIR: folder },
  })
}

function sheepdog(args: string[], path = '', env: Record<string, string> = {}) {
  const PATH = [path, dirname(process.execPath), '/usr/bin', '/bin'].filter(Boolean).join(':')
  const ended = spawnSync(process.execPath, [join(root, 'cli/sheepdog.js'), ...args], {
    encoding: 'utf8',
    cwd: folder,
    env: { PATH, HOME: folder, TMPDIR: folder, ...env },
  })
  return { status: ended.status, stdout: ended.stdout, stderr: ended.stderr }
}

const session = { line: { type: 'thread.started', thread_id: 't-1' } }
const said = (text: string) => ({
  line: { type: 'item.completed', item: { id: 'm', type: 'agent_message', text } },
})
const done = {
  line: { type: 'turn.completed', usage: { input_tokens: 10, cached_input_tokens: 2, output_tokens: 3 } },
}

const failing = { line: { type: 'turn.failed', error: { message: '401 Unauthorized' } } }
const started = {
  line: {
    type: 'item.started',
    item: { id: 'c', type: 'command_execution', command: 'ls', status: 'in_progress' },
  },
}

describe('sheepdog agent', () => {
  it('prints the answer on stdout and what happened on stderr', () => {
    const { status, stdout, stderr } = sheepdog(
      ['agent', 'codex', 'hi'],
      codexOf([session, said('Hello.'), done]),
    )
    expect(stderr).toContain('session t-1')
    expect({ status, stdout }).toEqual({ status: 0, stdout: 'Hello.\n' })
  })

  it('tells what was said on the way, and the answer once', () => {
    const plan = [session, said('Let me look.'), started, said('Hello.'), done]
    const { stdout, stderr } = sheepdog(['agent', 'codex', 'hi'], codexOf(plan))
    expect(stdout).toBe('Hello.\n')
    expect(stderr.split('\n').slice(0, 3)).toEqual(['session t-1', 'Let me look.', '> command_execution ls'])
    expect(stderr).not.toContain('Hello.')
    expect(stderr).toContain('1 model answer, 1 tool call')
  })

  it('tells the last words of a turn that failed', () => {
    const plan = [session, said('Nearly there.'), failing, { exit: 1 }]
    const { stdout, stderr } = sheepdog(['agent', 'codex', 'hi'], codexOf(plan))
    expect(stdout).toBe('')
    expect(stderr).toContain('Nearly there.\n')
  })

  it('waits out a usage limit where it may', () => {
    const resetsAt = Math.ceil(Date.now() / 1000) + 2
    const message = `You've hit your usage limit. {"resets_at":${resetsAt}}`
    const limited = [session, { line: { type: 'turn.failed', error: { message } } }, { exit: 1 }]
    const plan = (name: string) => [
      { count: join(folder, name), plans: [limited, [session, said('Done.'), done]] },
    ]
    const waited = sheepdog(['agent', 'codex', 'Hi', '--wait-for-reset', '1m'], codexOf(plan('waited')))
    expect(waited).toMatchObject({ status: 0, stdout: 'Done.\n' })
    expect(waited.stderr).toMatch(/^retry: .*limit/m)
    expect(Date.now()).toBeGreaterThanOrEqual(resetsAt * 1000)
    for (const wait of [[], ['--wait-for-reset', 'off']]) {
      const { status, stderr } = sheepdog(['agent', 'codex', 'Hi', ...wait], codexOf([...limited]))
      expect(status).toBe(1)
      expect(stderr).toContain('usage limit')
    }
  })

  it('is quiet but for the answer, or for what went wrong', () => {
    const good = sheepdog(['agent', 'codex', 'hi', '-q'], codexOf([session, said('Hello.'), done]))
    expect(good).toEqual({ status: 0, stdout: 'Hello.\n', stderr: '' })
    const bad = sheepdog(['agent', 'codex', 'hi', '-q'], codexOf([session, failing, { exit: 1 }]))
    expect(bad.stderr).toMatch(/^sheepdog: AGENT_FAILED: .*\n$/)
  })

  it.runIf(process.platform === 'linux')('fails when its answer can not be written', () => {
    const bin = codexOf([session, said('Hello.'), done])
    for (const options of ['', '--json']) {
      const { status, stderr } = sheepdogTo('/dev/full', ['agent', 'codex', 'hi', options], bin)
      expect(stderr).toMatch(/output could not be written \(ENOSPC\)/)
      expect(status, options).toBe(1)
    }
  })

  it('dies of Ctrl-C, as others do', async () => {
    const bin = codexOf([session, { hang: true }])
    const PATH = [bin, dirname(process.execPath), '/usr/bin', '/bin'].join(':')
    const child = spawn(process.execPath, [join(root, 'cli/sheepdog.js'), 'agent', 'codex', 'hi'], {
      cwd: folder,
      env: { PATH, HOME: folder, TMPDIR: folder },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      if (text.includes('session t-1')) child.kill('SIGINT')
    })
    expect(await once(child, 'exit')).toEqual([null, 'SIGINT'])
  })

  it('prints events and result as JSON lines', () => {
    const { status, stdout } = sheepdog(
      ['agent', 'codex', 'hi', '--json'],
      codexOf([session, said('Hello.'), done]),
    )
    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(lines.map((line) => line.type)).toEqual(['session', 'text', 'usage', 'end', 'result'])
    expect(lines.at(-1)).toMatchObject({ ok: true, result: { text: 'Hello.' } })
    expect(status).toBe(0)
  })

  it('prints an answer that fits a schema as JSON', () => {
    const schema = join(folder, 'schema.json')
    writeFileSync(schema, JSON.stringify({ type: 'object', required: ['a'] }))
    const plan = [session, said('```json\n{"a":1}\n```'), done]
    const { stdout } = sheepdog(['agent', 'codex', 'hi', '--schema', schema], codexOf(plan))
    expect(JSON.parse(stdout)).toEqual({ a: 1 })
  })

  it('exits with 1 and says why when the turn fails', () => {
    const plan = [
      session,
      { line: { type: 'turn.failed', error: { message: '401 Unauthorized' } } },
      { exit: 1 },
    ]
    const { status, stdout, stderr } = sheepdog(['agent', 'codex', 'hi'], codexOf(plan))
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    expect(stderr).toContain('AGENT_FAILED')
  })

  it.each([
    [['agent'], 'a provider and a prompt are needed'],
    [['agent', 'codx', 'hi'], 'did you mean codex?'],
    [['agent', 'codex', 'hi', '--shema', 'x'], 'did you mean --schema?'],
    [['agent', 'codex', 'hi', '--schema', '/none'], '--schema: /none does not exist'],
    [['query', 'ws://127.0.0.1:1', 'hi', '--schema', '/'], '--schema: / is a folder, not a file'],
    [['chat', 'codex', '--policy', '/none'], '--policy: /none does not exist'],
    [['submit', '--jsonl', '/none'], '--jsonl: /none does not exist'],
    [['serve', '--handler', '/none'], '--handler: /none does not exist'],
    [['serve', '--agent', 'codex', '--permission', 'read'], '--permission: expected "plan"'],
    [['run', '--host', 'x:y', '--', 'true'], '--host: expected a port'],
    [['replay', 'codex', '/none'], 'No such file'],
    [['replay', 'codx', '/none'], 'did you mean codex?'],
    [['replay', 'codex', '/none', '--exit', 'x'], '--exit: '],
  ])('%j is refused in one line', (args, words) => {
    const { status, stderr } = sheepdog(args)
    expect(status).toBe(2)
    expect(stderr).toContain(words)
    expect(stderr.trim().split('\n')).toHaveLength(1)
  })
})

describe('sheepdog replay', () => {
  const recording = recordedStream('codex', 'tool')

  it.runIf(process.platform === 'linux')('fails when what it has to say can not be written', () => {
    const { status, stderr } = sheepdogTo('/dev/full', ['replay', 'codex', recording])
    expect({ status, stderr }).toEqual({
      status: 1,
      stderr: 'sheepdog replay: output could not be written (ENOSPC)\n',
    })
  })

  it('shows events and verdict of a recording', () => {
    const { status, stdout } = sheepdog(['replay', 'codex', recording, '--exit', '0'])
    expect(stdout).toContain('The fake model says hello.')
    expect(stdout).toContain('1 tool call')
    expect(status).toBe(0)
  })

  it('tells a run that failed', () => {
    const cut = sheepdog([
      'replay',
      'codex',
      recordedStream('codex', 'stall'),
      '--signal',
      'SIGKILL',
      '--json',
    ])
    expect(cut.status).toBe(1)
    expect(JSON.parse(cut.stdout.trim().split('\n').at(-1)!)).toMatchObject({
      ok: false,
      error: { code: 'AGENT_CRASHED' },
    })
  })
})

it('replay says how a folder is replayed', () => {
  const { status, stderr } = sheepdog(['replay', 'codex', '.'])
  expect([status, stderr]).toEqual([
    2,
    'sheepdog replay: the folder of a run names its agent: sheepdog replay ., without codex\n',
  ])
})

describe('sheepdog doctor', () => {
  it('tells what is there and how to install the rest', () => {
    const bin = codexOf([])
    writeFileSync(join(bin, 'codex'), '#!/bin/sh\necho codex-cli 9.8.7\n')
    const { status, stdout } = sheepdog(['doctor'], bin)
    expect(stdout).toMatch(/^ok {2}codex +9\.8\.7 .*\(tested with \d+\.\d+\.\d+\)$/m)
    expect(stdout).toMatch(/sign-in: (none found in CODEX_API_KEY|found in )/)
    expect(stdout).toContain('npm install -g @google/gemini-cli')
    expect(status).toBe(0)
  })

  it('takes a file for a sign-in only when it holds one', () => {
    const home = mkdtempSync(join(folder, 'home-'))
    mkdirSync(join(home, '.kimi-code', 'credentials'), { recursive: true })
    mkdirSync(join(home, '.pi', 'agent'), { recursive: true })
    writeFileSync(join(home, '.pi', 'agent', 'auth.json'), '{}')
    mkdirSync(join(home, '.copilot'))
    const copilot = join(home, '.copilot', 'config.json')
    const signedIn = () => {
      const { stdout } = sheepdog(['doctor', '--json'], '/nonexistent', { HOME: home })
      const findings = JSON.parse(stdout) as { provider: string; signIn: { by?: string } }[]
      const found = findings.filter(({ signIn }) => signIn.by?.startsWith(home))
      return found.map(({ provider }) => provider)
    }
    writeFileSync(copilot, '{ "firstLaunchAt": "2026-11-24T10:30:08.115Z" }')
    expect(signedIn()).toEqual([])
    writeFileSync(copilot, '{ "loggedInUsers": [{ "host": "https://github.com", "login": "ada" }] }')
    writeFileSync(join(home, '.pi', 'agent', 'auth.json'), '{"anthropic":{"type":"api_key","key":"k"}}')
    writeFileSync(join(home, '.kimi-code', 'credentials', 'kimi.json'), '{}')
    expect(signedIn()).toEqual(['copilot', 'pi', 'kimi'])
  })
})
