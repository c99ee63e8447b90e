// What an agent may do, at the edge: the default, what is refused, what reaches the CLI, and the sandbox around it. What the real
// CLIs make of it: fixtures/level-cases.mjs.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { Harness, type HarnessOptions, type TurnOptions } from '..'
import { serveRuntime, RuntimeClient } from '../entries/runtime.js'
import { sheepdog } from './cli-command'
import { done, failure, folder, played, player, said, session } from './played-agent'

const told = [session, { tell: 'args' }, done]
const args = async (options: Partial<HarnessOptions> = {}, turn?: TurnOptions) =>
  JSON.parse((await played(told, options).run('hi', turn)).text).join(' ') as string

describe('permission', () => {
  it('is "edit" unless it is named, and a turn says so for itself', async () => {
    expect(await args()).toContain('sandbox_mode="workspace-write"')
    expect(await args({ permission: 'plan' })).toContain('sandbox_mode="read-only"')
    expect(await args({ permission: 'plan' }, { permission: 'auto' })).toContain(
      '--dangerously-bypass-approvals-and-sandbox',
    )
    for (const permission of ['plan', 'edit'] as const)
      expect(await args({ permission })).not.toContain('dangerously')
  })

  it('is "edit" too behind a runtime, whose clients can not raise it by a variable', async () => {
    const harness = { binary: ['node', player, JSON.stringify(told)], cwd: folder }
    await using server = await serveRuntime({ provider: 'codex', harness, port: 0 })
    await using client = await RuntimeClient.connect(server.url)
    const { data } = await client.query('hi', { systemPrompt: '', model: '' })
    expect(JSON.stringify(data)).toContain('workspace-write')
    const copilot = { ...harness, binary: ['node', player, '[]'] }
    await using guarded = await serveRuntime({ provider: 'copilot', harness: copilot, port: 0 })
    await using other = await RuntimeClient.connect(guarded.url)
    const error = await failure(
      other.query('hi', { systemPrompt: '', model: '', agentEnv: { COPILOT_ALLOW_ALL: 'true' } }),
    )
    expect(error.message).toContain('env["COPILOT_ALLOW_ALL"]')
  })

  it('is not raised by a variable that the host happens to have', async () => {
    const file = join(folder, 'variables')
    const binary = ['sh', '-c', `echo "$COPILOT_ALLOW_ALL" > ${file}; exit 3`]
    const harness = new Harness({ provider: 'copilot', binary, cwd: folder, retry: { attempts: 1 } })
    const before = process.env.COPILOT_ALLOW_ALL
    process.env.COPILOT_ALLOW_ALL = 'true'
    try {
      await failure(harness.run('hi'))
      expect(readFileSync(file, 'utf8')).toBe('\n')
      await failure(harness.run('hi', { permission: 'auto' }))
      expect(readFileSync(file, 'utf8')).toBe('true\n')
    } finally {
      if (before === undefined) delete process.env.COPILOT_ALLOW_ALL
      else process.env.COPILOT_ALLOW_ALL = before
    }
  })

  it('that a CLI can not hold is refused by its name, before anything is started', async () => {
    for (const provider of ['pi', 'kimi'] as const) {
      const harness = new Harness({ provider, binary: ['sh', '-c', 'echo started > started'], cwd: folder })
      const error = await failure(harness.run('hi'))
      expect(error).toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringMatching(/^permission: "edit"/),
      })
      expect(error.message).toContain('sandbox')
      expect(existsSync(join(folder, 'started'))).toBe(false)
    }
  })

  it.each<[Partial<HarnessOptions>, RegExp]>([
    [{ permission: 'yolo' as never }, /^permission: expected "plan" or "edit" or "auto", got "yolo"/],
    [{ allow: 'npm test' as never }, /^allow: expected an array of strings/],
    [{ allow: ['npm test'] }, /^allow: codex runs any command/],
    [{ allow: ['npm test'], permission: 'plan' }, /^allow: applies at permission "edit" only/],
    [{ allow: ['npm test'], permission: 'auto' }, /^allow: applies at permission "edit" only/],
    [{ sandbox: 'workshop' as never }, /^sandbox: expected "workspace" or an object, got "workshop"/],
    [{ sandbox: { write: ['/no/such'] } }, /^sandbox.write\[0\]: \/no\/such/],
  ])('%j is refused by its path', async (options, message) => {
    const failed = async () => played(told, options).run('hi')
    expect(await failure(failed())).toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringMatching(message),
    })
  })

  it.each([
    'a; b',
    'a && b',
    'a | b',
    'a & b',
    '$(a)',
    'a `b`',
    'a > b',
    'a\nb',
    'a) Bash(*',
    'a,b',
    '--yolo',
    '"a"',
    '',
  ])('the glob %j is refused by its place', async (glob) => {
    for (const provider of ['claude-code', 'gemini', 'opencode', 'copilot'] as const) {
      const harness = new Harness({ provider, binary: ['sh', '-c', 'exit 3'], cwd: folder })
      const error = await failure(harness.run('hi', { allow: ['ls *', glob], sandbox: 'workspace' }))
      expect(error).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringMatching(/^allow\[1\]: /) })
    }
  })

  it('what it may run is read by rules of the CLI, so that a turn needs the sandbox for it', async () => {
    for (const provider of ['claude-code', 'gemini', 'opencode', 'copilot'] as const) {
      const harness = new Harness({ provider, binary: ['sh', '-c', 'echo started > started'], cwd: folder })
      const error = await failure(harness.run('hi', { allow: ['npm test'] }))
      expect(error).toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringMatching(/^allow: .*`sandbox: "workspace"`.*`harness\.open`/),
      })
      expect(existsSync(join(folder, 'started'))).toBe(false)
    }
  })

  it('a glob with spaces is one argument', async () => {
    const file = join(folder, 'arguments')
    const script = `printf '%s\\n' "$@" > ${file}`
    const cwd = mkdtempSync(join(folder, 'work-'))
    const harness = new Harness({ provider: 'claude-code', binary: ['sh', '-c', script, 'sh'], cwd })
    const sandbox = { write: [cwd, folder] }
    const options = { sandbox, env: { HOME: folder }, retry: { attempts: 1 } } as const
    await failure(harness.run('hi', { allow: ['npm run build --flag *'], ...options }))
    expect(readFileSync(file, 'utf8').split('\n')).toContain('--allowedTools=Bash(npm run build --flag *)')
  })

  it('a turn at another level has nothing to do with what "edit" may run', async () => {
    const harness = new Harness({
      provider: 'claude-code',
      binary: ['sh', '-c', 'exit 3'],
      allow: ['npm test'],
    })
    const { code } = await failure(harness.run('hi', { permission: 'plan', retry: { attempts: 1 } }))
    expect(code).toBe('AGENT_CRASHED')
  })
})

describe('the sandbox of an agent', () => {
  const place = mkdtempSync(join(tmpdir(), 'levels-spec-'))
  afterAll(() => rmSync(place, { recursive: true }))
  const [home, work, outside] = ['home', 'work', 'outside'].map((name) => join(place, name)) as [
    string,
    string,
    string,
  ]
  for (const made of [home, work, outside]) mkdirSync(made)
  const tried = [work, outside, home, join(home, '.codex'), join(home, '.codex', 'sessions')]
  /** Where the agent could write. */
  async function written(options: TurnOptions): Promise<string[]> {
    for (const folder of tried) rmSync(join(folder, 'file'), { force: true })
    const tries = `for at in ${tried.join(' ')} "$TMPDIR"; do echo x > "$at/file" && echo "could $at" >&2; done`
    const script = `${tries}; exec node ${player} '${JSON.stringify([session, said('Done.'), done])}'`
    const harness = new Harness({
      provider: 'codex',
      binary: ['sh', '-c', script],
      cwd: work,
      env: { HOME: home },
    })
    const { stderr } = (await harness.run('hi', options)).process!
    return [...stderr.matchAll(/^could (.*)$/gm)].map(([, at]) =>
      at!.replace(place, '').replace(/.*\/sheepdog-.*/, 'own'),
    )
  }

  it("holds it in its folder, its CLI's state, which is made, and a folder of its own", async () => {
    expect(await written({ sandbox: 'workspace' })).toEqual(['/work', '/home/.codex/sessions', 'own'])
    expect(await written({ sandbox: 'workspace', permission: 'auto' })).toEqual([
      '/work',
      '/home/.codex/sessions',
      'own',
    ])
  })

  it('is for reading at "plan"', async () => {
    expect(await written({ sandbox: 'workspace', permission: 'plan' })).toEqual([
      '/home/.codex/sessions',
      'own',
    ])
  })

  it('lists other folders in place of its own, relative to it', async () => {
    expect(await written({ sandbox: { write: ['../outside'] } })).toEqual([
      '/outside',
      '/home/.codex/sessions',
      'own',
    ])
  })

  it('holds through a working directory that is a link', async () => {
    const link = join(place, 'link')
    symlinkSync(work, link)
    expect(await written({ sandbox: 'workspace', cwd: link })).toEqual([
      '/work',
      '/home/.codex/sessions',
      'own',
    ])
  })

  it('is there for sessions', async () => {
    const agent = join(__dirname, '..', 'fixtures', 'acp', 'agent.mjs')
    const script = `echo x > ${outside}/by-session; echo x > ${work}/by-session; exec node ${agent} --version 1`
    const binary = ['sh', '-c', script]
    const harness = new Harness({ provider: 'gemini', cwd: work, env: { HOME: home }, sandbox: 'workspace' })
    await using opened = await harness.open({ binary })
    expect((await opened.prompt('hello')).text).toBe('Hello world')
    expect(readdirSync(work)).toContain('by-session')
    expect(readdirSync(outside)).not.toContain('by-session')
    expect(readdirSync(home)).toContain('.gemini')
  })

  it("leaves what configures its CLI's later runs read-only, by a state folder of the run's own", async () => {
    const script = 'echo x > $CODEX_HOME/config.toml; echo $CODEX_HOME; ls $CODEX_HOME; exit 3'
    const file = join(home, '.codex', 'config.toml')
    mkdirSync(join(home, '.codex'), { recursive: true })
    writeFileSync(file, 'mine')
    const binary = ['sh', '-c', script]
    const harness = new Harness({ provider: 'codex', binary, cwd: work, env: { HOME: home } })
    const failed = await failure(harness.run('hi', { sandbox: 'workspace', retry: { attempts: 1 } }))
    expect(failed.stderr ?? failed.result?.process?.stderr).toMatch(/config\.toml: Permission denied/)
    expect(readFileSync(file, 'utf8')).toBe('mine')
  })

  it('puts back what the own sandbox of codex would have protected, unless it is told otherwise', async () => {
    const hook = join(work, '.git', 'hooks', 'pre-commit')
    const plan = JSON.stringify([session, said('Done.'), done])
    const script = `mkdir -p .git/hooks .vscode; echo x > .git/hooks/pre-commit; echo x > .vscode/tasks.json; exec node ${player} '${plan}'`
    const binary = ['sh', '-c', script]
    const harness = new Harness({ provider: 'codex', binary, cwd: work, env: { HOME: home } })
    const { warnings } = await harness.run('hi', { sandbox: 'workspace' })
    expect(existsSync(hook)).toBe(false)
    expect(warnings.join()).toMatch(
      /look at them first: \S*tasks\.json; .*again as they were: \S*pre-commit$/,
    )
    const told = await harness.run('hi', { sandbox: { write: ['.'], protect: 'report' } })
    expect(existsSync(hook)).toBe(true)
    expect(told.warnings.join()).toMatch(/look at them first: \S*pre-commit/)
    rmSync(join(work, '.git'), { recursive: true })
    rmSync(join(work, '.vscode'), { recursive: true })
  })

  it('holds no level below "auto" of a session with codex, whose own sandbox fails in there', async () => {
    const harness = new Harness({ provider: 'codex', binary: ['sh'], cwd: work, env: { HOME: home } })
    for (const permission of ['plan', 'edit', 'ask'] as const) {
      const error = await failure(harness.open({ permission, sandbox: 'workspace' }))
      expect(error).toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringMatching(/^permission: .*in a sandbox.*harness\.run/),
      })
    }
  })

  it('is refused where the kernel can not hold it', async () => {
    const harness = new Harness({ provider: 'codex', binary: ['sh'], cwd: work, containment: 'group' })
    expect((await failure(harness.run('hi', { sandbox: 'workspace' }))).code).toBe('SANDBOX_UNAVAILABLE')
    const opening = harness.open({ binary: ['sh'], sandbox: 'workspace', permission: 'auto' })
    expect((await failure(opening)).code).toBe('SANDBOX_UNAVAILABLE')
  })
})

describe('an agent in a sandbox behind a server', () => {
  const harness: Partial<HarnessOptions> = { binary: ['true'], cwd: folder, sandbox: 'workspace' }
  it('may not be able to connect to it as a client: a token is needed', async () => {
    for (const keepSession of [false, true]) {
      const serving = serveRuntime({ provider: 'codex', harness, keepSession, port: 0 })
      expect(await failure(serving)).toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringMatching(/^token: is required when the agent is in a sandbox/),
      })
    }
    await using server = await serveRuntime({ provider: 'codex', harness, port: 0, token: 'secret' })
    expect((await failure(RuntimeClient.connect(server.url))).code).toBe('RUNTIME_UNAUTHORIZED')
  })
})

describe('on the command line', () => {
  it.each([
    [['agent', 'pi', 'hi'], /INVALID_OPTION: --permission: "edit" cannot be enforced.*Pass --sandbox/],
    [['agent', 'codex', 'hi', '--allow', 'npm test'], /INVALID_OPTION: --allow: codex/],
    [['agent', 'codex', 'hi', '--permission', 'yolo'], /permission: expected "plan" or "edit" or "auto"/],
    [['agent', 'codex', 'hi', '--plan', '--permission', 'auto'], /contradict each other/],
    [['agent', 'codex', 'hi', '--sandbox', 'workspace', '--write', '/no/such'], /--write: \/no\/such/],
    [['chat', 'pi', '--sandbox'], /permission: pi can't be held to "edit"/],
    [['serve', '--agent', 'codex', '--sandbox', '--port', '0'], /token: is required.*SHEEPDOG_RUNTIME_TOKEN/],
    [['serve', '--agent', 'codex', '--sandbox', '--token', 'x'], /--token: .*SHEEPDOG_RUNTIME_TOKEN/],
    [['serve', '--agent', 'codex', '--permission', 'yolo'], /--permission: expected "plan"/],
    [['serve', '--sandbox', '--port', '0'], /--sandbox: limits an agent, and needs --agent/],
    [['serve', '--handler', 'x.mjs', '--write', '/tmp'], /--write: limits an agent, and needs --agent/],
    [['serve', '--permission', 'plan'], /--permission: limits an agent, and needs --agent/],
  ])('%j', async (words, message) => {
    const bin = join(folder, 'bin')
    mkdirSync(bin, { recursive: true })
    for (const name of ['pi', 'codex', 'pi-acp']) {
      rmSync(join(bin, name), { force: true })
      symlinkSync('/bin/true', join(bin, name))
    }
    const { stderr, status } = await sheepdog(words, { PATH: `${bin}:${process.env.PATH}` })
    expect(stderr).toMatch(message)
    expect(status).toBe(2)
  })
})
