// Each command line of the pages and of the help texts is started once, in a reader's project, beside agents that follow a script.
// None may be a wrong command line, or ask for what the command refuses.
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { run } from '..'
import { blocksOf, published, root } from './documents-blocks'
import { project, standIns } from './documents-project'

const program = join(root, 'cli/sheepdog.js')
const help = (...words: string[]) => execFileSync(process.execPath, [program, ...words], { encoding: 'utf8' })

/** A line that is continued counts with what follows it. A synopsis, with its [OPTIONAL] parts, is no command line. */
const linesOf = (code: string) =>
  code
    .replace(/\\\n\s*/g, ' ')
    .split('\n')
    .map((line) =>
      line
        .replace(/\s# .*$/, '')
        .replace(/^\s*(?:\$ |npx )/, '')
        .trim(),
    )
    .filter((line) => line.startsWith('sheepdog ') && !/\[-|\.\.\.|\bhelp\b/.test(line))

const ofPages = ['README.md', ...published].flatMap((page) =>
  blocksOf(page)
    .filter(({ language }) => language === 'sh')
    .flatMap(({ place, code }) => {
      const before = code.split('\n').filter((line) => line.startsWith('mkdir '))
      return linesOf(code).map((line) => ({ place, line, before }))
    }),
)
const commands = [
  ...help('--help')
    .split(/^Options:$/m)[0]!
    .matchAll(/^ {2}([a-z]+) {2,}/gm),
].map(([, name]) => name!)
const ofHelp = commands.flatMap((command) => {
  const [, examples = ''] = help('help', command).split(/^Examples?:\n/m)
  return linesOf(examples).map((line) => ({
    place: `sheepdog help ${command}`,
    line,
    before: [] as string[],
  }))
})
// It would end what other hosts of this user have left behind.
const isHarmless = ({ line }: { line: string }) => !line.startsWith('sheepdog reap')
const seen = new Set<string>()
const all = [...ofPages, ...ofHelp].filter(isHarmless).filter(({ line }) => !seen.has(line) && seen.add(line))

/** A folder of programs: `sheepdog`, and an agent for each name that sessions or turns start. */
function programs(folder: string): string {
  const bin = join(folder, 'bin')
  mkdirSync(bin)
  const write = (name: string, text: string) => {
    writeFileSync(join(bin, name), text)
    chmodSync(join(bin, name), 0o755)
  }
  write('sheepdog', `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`)
  const session = join(standIns, 'session.mjs')
  for (const name of [
    'codex-acp',
    'pi-acp',
    'gemini',
    'opencode',
    'copilot',
    'qwen',
    'kimi',
    'cline',
    'goose',
  ])
    write(name, `#!/bin/sh\nexec '${process.execPath}' '${session}' "$@"\n`)
  return bin
}

/** Files that a reader has. */
const schema = JSON.stringify({
  type: 'object',
  properties: { list: { type: 'string' } },
  required: ['list'],
})
const files = {
  'rules.json': '{ "allow": [{ "command": "git status*" }] }',
  'list.json': schema,
  'schema.json': schema,
  'agent.mjs': 'export default { run: async () => ({ type: "text", text: "fine" }) }',
  'stdout.jsonl':
    '{"type":"thread.started","thread_id":"t"}\n{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"Fine."}}\n{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"output_tokens":1}}',
}

/** Words for something that is missing here: a server, a runtime, a job, a record, a file of the reader's. */
const IS_ABSENT =
  /nats-server|FLEET_|RUNTIME_|connect|there is no|no such|has no|not found|is not here|No record|no run|was silent|cgroup/i

describe('a command line', () => {
  it('that is refused is no absence', () => {
    expect('sheepdog: codex can\'t be held to "ask" over this protocol in a sandbox').not.toMatch(IS_ABSENT)
  })

  it('is found in pages and in help texts', () => {
    expect(ofPages.length).toBeGreaterThan(40)
    expect(ofHelp.length).toBeGreaterThan(20)
  })

  it('that stays is the last of its block, goes on behind it, or is one of several to choose from', () => {
    const stays = /^(npx )?sheepdog (view|work|serve|acp|mcp|chat|fleet up|jobs --watch)\b/
    const blocks = ['README.md', ...published].flatMap(blocksOf).filter(({ language }) => language === 'sh')
    const wrong = blocks.flatMap(({ place, code }) => {
      const lines = code.split('\n')
      return lines.slice(0, -1).flatMap((line, index) => {
        const isFine = !stays.test(line) || /&\s*(#|$)/.test(line) || lines[index + 1]!.startsWith('# or')
        return isFine ? [] : [`${place}: ${line}`]
      })
    })
    expect(wrong).toEqual([])
  })

  it.concurrent.each(all.map((one) => [`${one.place}: ${one.line}`, one] as const))(
    '%s',
    async (_, { line, before }) => {
      const folder = project([])
      for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
      const home = dirname(folder)
      const env = {
        PATH: `${programs(home)}:${join(standIns, 'bin')}:${process.env.PATH}`,
        HOME: home,
        SHEEPDOG_STATE_DIR: join(home, 'state'),
        ANTHROPIC_API_KEY: 'key',
        NPM_TOKEN: 'key',
        SHEEPDOG_RUNTIME_TOKEN: 'token',
      }
      // A command that stays has taken its options.
      const options = { cwd: folder, env, timeoutMs: 5000, killGraceMs: 500 }
      const ended = await run('sh', ['-c', [...before, line.replace(/&$/, '')].join('\n')], options).catch(
        (error) => error.result,
      )
      const { exitCode, stderr, stdout } = ended
      if (exitCode === 2)
        expect(stderr).toMatch(/the folder .* does not exist|no such folder|is not in a git repository/)
      if (exitCode === 1) expect(stderr || stdout).toMatch(IS_ABSENT)
    },
  )
})
