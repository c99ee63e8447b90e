// No word of an agent, a model or a program reaches the terminal as a control sequence. Tests every command that shows such words, on a
// real terminal, with the same hostile text.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { describeQuestion } from '../cli/question'
import { harmless, json } from '../cli/screen'
import { displayWidth } from '../cli/width'
import { warnOnce } from '../lib/warning'
import { run } from '../index.js'
import { command } from './cli-command'

const root = join(__dirname, '..')
const folder = mkdtempSync(join(tmpdir(), 'cli-screen-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Each takes effect on a terminal if it gets there. */
const hostile = {
  'clipboard (OSC 52)': '\u001b]52;c;aGFja2Vk\u0007',
  'title (OSC 0, ended by ST)': '\u001b]0;owned\u001b\\',
  'clear screen': '\u001b[2J\u001b[H',
  'hidden text': '\u001b[8mhidden\u001b[0m',
  'device control string': '\u001bP+q544e\u001b\\',
  'C1 control sequence': '\u009b2J\u009d52;c;aGk=\u009c',
  'carriage return': 'is asked\rforged line',
  backspace: 'rm -rf\b\b\b\b\b\bls    ',
  'reordering of text': '\u202egnp.exe\u202c\u2066',
  'marks of direction': 'a\u200f1\u061c2\u200e',
  'half a sequence': '\u001b[',
}
const all = Object.values(hostile).join(' and ')
// eslint-disable-next-line no-control-regex
const dangerous = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/

describe('text for a person', () => {
  it.each(Object.entries(hostile))('has no effect on a terminal: %s', (_, text) => {
    expect(harmless(text)).not.toMatch(dangerous)
    expect(harmless(`before ${text} after`)).toMatch(/^before .* after$/s)
    // Cut anywhere, as pieces of a stream are.
    for (let at = 0; at <= text.length; at++)
      expect(harmless(text.slice(0, at)) + harmless(text.slice(at))).not.toMatch(dangerous)
    expect(json({ text })).not.toMatch(dangerous)
    expect(JSON.parse(json({ text }))).toEqual({ text })
  })

  it('stays as it is otherwise', () => {
    const text = 'one\ttwo\n  three ü 字 👩‍💻\n'
    expect(harmless(text)).toBe(text)
    expect(harmless('one\r\ntwo\r\n')).toBe('one\ntwo\n')
  })

  it('asks with the command that will run, and no part of it looks like another line', () => {
    const tool = {
      id: '1',
      kind: 'execute' as const,
      title: `Run tests ${all}`,
      input: { command: 'ls\nsheepdog: allowed' },
    }
    expect(describeQuestion(tool)).toEqual([
      expect.stringMatching(/^execute: Run tests/),
      '  command: ls',
      '  | sheepdog: allowed',
    ])
    expect(describeQuestion({ ...tool, input: { command: ['sh', '-c', 'true'] } })[1]).toBe(
      '  command: sh -c true',
    )
    expect(describeQuestion({ ...tool, input: { path: 'a' }, locations: [{ path: '/etc/x' }] })).toEqual([
      expect.any(String),
      '  input: {"path":"a"}',
      '  path: /etc/x',
    ])
    const long = describeQuestion({ ...tool, input: { command: 'x'.repeat(5000) } })
    expect(long.at(-1)).toBe('  | [1000 more characters are not shown]')
  })

  it.each(Object.entries(hostile))('hides no part of a command that is asked about: %s', (_, text) => {
    const ask = (input: object, columns?: number) =>
      describeQuestion({ id: '1', kind: 'execute', title: 'List', input }, columns).map(harmless)
    // A shell runs what stands between the sequences, and what a terminal would take as the text of a sequence.
    const hidden = text.replaceAll('\u0007', '; rm -rf ~\u0007').replaceAll('\u009c', '; rm -rf ~\u009c')
    const lines = ask({ command: `ls ${hidden}` })
    const seen = lines
      .slice(1)
      .map((line) => line.slice(4))
      .join('')
    for (const part of hidden.split(dangerous)) expect(seen).toContain(part)
    expect(seen).toMatch(/<U\+|forged line/)
    expect(lines.join('')).not.toMatch(dangerous)
  })

  it('shows what else a command is given, the ends of its words, and characters that cannot be seen', () => {
    const ask = (input: object, columns?: number) =>
      describeQuestion({ id: '1', kind: 'execute', title: 'List', input }, columns).slice(1)
    expect(ask({ command: 'git', args: ['push', '--force'] })).toEqual([
      '  command: git',
      '  with: {"args":["push","--force"]}',
    ])
    expect(ask({ command: 'ls', cmd: 'rm -rf ~' })).toEqual(['  command: ls', '  with: {"cmd":"rm -rf ~"}'])
    expect(ask({ command: ['rm', 'a b', ''] })).toEqual(['  command: rm "a b" ""'])
    expect(ask({ command: 'rm\u00a0x\u200b\u{e0041}\tü 字' })).toEqual([
      '  command: rm<U+00A0>x<U+200B><U+E0041>    ü 字',
    ])
    // Wrapped here: a terminal would begin a line of its own with it.
    const padded = ask({ command: `ls${' '.repeat(60)}[y]es, [a]lways, [n]o? ${'字'.repeat(40)}` }, 40)
    expect(padded.length).toBeGreaterThan(4)
    for (const line of padded) {
      expect(displayWidth(line)).toBeLessThan(40)
      expect(line).toMatch(/^  (command: |\+ )/)
    }
  })

  it('of a warning has no effect on a terminal', async () => {
    const warned = once(process, 'warning')
    warnOnce(`a program said ${all}`)
    const [{ message }] = (await warned) as [Error]
    expect(message).toMatch(/^a program said/)
    expect(message).not.toMatch(dangerous)
  })

  it('is written in one place', () => {
    const files = readdirSync(join(root, 'cli'), { recursive: true, encoding: 'utf8' })
    const writers = files
      .filter((file) => file.endsWith('.ts'))
      .filter((file) =>
        /(process\.(stdout|stderr)|process\[\w+\])\.write|console\./.test(
          readFileSync(join(root, 'cli', file), 'utf8'),
        ),
      )
    // main.ts writes nothing (an empty text) to learn when everything was written.
    expect(writers.sort()).toEqual(['main.ts', 'screen.ts'])
  })
})

const python = (process.env.PATH ?? '').split(delimiter).some((path) => existsSync(join(path, 'python3')))

/** A folder for PATH whose `codex` plays these lines. */
function codexOf(lines: object[]): string {
  const bin = mkdtempSync(join(folder, 'bin-'))
  const plan = [...lines.map((line) => ({ line })), { exit: 0 }]
  const script = `import(${JSON.stringify(join(root, 'fixtures/bin/agent.mjs'))})`
  writeFileSync(
    join(bin, 'play.cjs'),
    `process.argv.splice(2, 0, ${JSON.stringify(JSON.stringify(plan))}); ${script}\n`,
  )
  writeFileSync(join(bin, 'codex'), `#!/bin/sh\nexec "${process.execPath}" "${join(bin, 'play.cjs')}" "$@"\n`)
  chmodSync(join(bin, 'codex'), 0o755)
  return bin
}

const codexLines = (end: object) => [
  { type: 'thread.started', thread_id: `t-1 ${all}` },
  {
    type: 'item.started',
    item: { id: 'c', type: 'command_execution', command: `ls ${all}`, status: 'in_progress' },
  },
  {
    type: 'item.completed',
    item: {
      id: 'c',
      type: 'command_execution',
      command: `ls ${all}`,
      status: 'completed',
      exit_code: 0,
      aggregated_output: all,
    },
  },
  { type: 'item.completed', item: { id: 'e', type: 'error', message: `warned ${all}` } },
  { type: 'item.completed', item: { id: 'm', type: 'agent_message', text: `said ${all}` } },
  end,
]
const good = { type: 'turn.completed', usage: { input_tokens: 1, cached_input_tokens: 0, output_tokens: 1 } }
const bad = { type: 'turn.failed', error: { message: `failed ${all}` } }

describe.skipIf(!python)('on a terminal', () => {
  /** All that the command writes to its terminal. TERM=dumb: without a live line, whose sequences are our own. */
  async function shown(args: string[], { path = '', input = '' } = {}): Promise<string> {
    const terminal = join(root, 'fixtures/bin/print-in-terminal.py')
    const PATH = [path, process.env.PATH].filter(Boolean).join(delimiter)
    const words = [process.execPath, command, ...args]
    const line = input ? ['sh', '-c', 'printf "%b" "$0" | "$@"', input, ...words] : words
    const { stdout } = await run('python3', [terminal, '200', ...line], {
      env: { TERM: 'dumb', PATH, HOME: folder },
    })
    // The line discipline of a terminal writes a line feed as CR LF.
    return stdout.replaceAll('\r\n', '\n')
  }

  let server: ReturnType<typeof spawn>
  let url: string
  beforeAll(async () => {
    const handler = join(root, 'fixtures/runtime/puppet.mjs')
    server = spawn(process.execPath, [command, 'serve', '--port', '0', `--handler=${handler}`], {
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    url = await new Promise<string>((resolve) => {
      server.stdout!.on('data', (text) => {
        const [, port] = /listening on port (\d+)/.exec(`${text}`) ?? []
        if (port) resolve(`ws://127.0.0.1:${port}`)
      })
    })
  })
  afterAll(() => void server.kill('SIGTERM'))

  it('agent shows a turn that succeeds and one that fails', async () => {
    const told = await shown(['agent', 'codex', 'x'], { path: codexOf(codexLines(good)) })
    expect(told).toContain('said ')
    expect(told).not.toMatch(dangerous)
    const failed = await shown(['agent', 'codex', 'x'], { path: codexOf(codexLines(bad)) })
    expect(failed).toContain('failed ')
    expect(failed).not.toMatch(dangerous)
    const asJson = await shown(['agent', 'codex', 'x', '--json'], { path: codexOf(codexLines(good)) })
    expect(asJson).not.toMatch(dangerous)
  })

  it('replay names a folder that does not exist', async () => {
    const { stderr, exitCode } = await run(process.execPath, [command, 'replay', 'no-such-run'])
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining('no-such-run: no such folder')])
  })

  it('replay shows a recording, and the record of a program', async () => {
    const file = join(folder, 'recorded.jsonl')
    writeFileSync(
      file,
      codexLines(good)
        .map((line) => `${JSON.stringify(line)}\n`)
        .join(''),
    )
    const told = await shown(['replay', 'codex', file, '--exit', '0'])
    expect(told).toContain('said ')
    expect(told).not.toMatch(dangerous)
    const { record } = await run('printf', ['%s\n', all], { record: join(folder, 'records') })
    const replayed = await shown(['replay', record!.folder])
    expect(replayed).toContain('is asked\nforged line')
    expect(replayed).not.toMatch(dangerous)
    // A file gets every byte.
    const raw = await run(process.execPath, [command, 'replay', record!.folder])
    expect(raw.stdout).toBe(`${all}\n`)
  })

  it('query and exec show what a runtime says', async () => {
    const answer = await shown(['query', url, `say ${all}`])
    expect(answer).toContain('forged line')
    expect(answer).not.toMatch(dangerous)
    const output = await shown(['exec', url, '--', 'printf', '%s\\n', all])
    expect(output).toContain('is asked\nforged line')
    expect(output).not.toMatch(dangerous)
    const refused = await shown(['query', 'ws://127.0.0.1:1/', `say ${all}`])
    expect(refused).not.toMatch(dangerous)
  })

  it('chat shows words, tools and questions', async () => {
    const agent = join(root, 'fixtures/acp/agent.mjs')
    const words = ['chat', 'gemini', '--binary', process.execPath, '--binary', agent]
    const update = (update: object) =>
      Buffer.from(
        JSON.stringify({
          jsonrpc: '2.0',
          method: 'session/update',
          params: { sessionId: 'session-1', update },
        }),
      ).toString('base64')
    const tool = {
      sessionUpdate: 'tool_call',
      toolCallId: 't',
      title: `tool ${all}`,
      kind: 'execute',
      status: 'completed',
      rawInput: { command: all },
    }
    const said = { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: `said ${all}` } }
    const told = await shown(words, { input: `lines ${update(tool)} ${update(said)}\\n` })
    expect(told).toContain('said ')
    expect(told).not.toMatch(dangerous)
  })

  it('errors of run name what was asked for', async () => {
    const missing = await shown(['run', '--', `no-such-program-${all}`])
    expect(missing).toContain('no-such-program')
    expect(missing).not.toMatch(dangerous)
  })
})
