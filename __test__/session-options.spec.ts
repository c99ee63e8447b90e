// The options of sessions, the parts of prompts, and the facts that a session tells, over the real addon, with the scripted agent.
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ConcurrencyLimit, Harness, type AgentSession, type OpenOptions, type SessionEvent } from '..'
import { failure, following } from './played-agent'
import { agent, alive, folder, open, scripted } from './session-agent'

test('a wrong option names its path, and nothing is thrown at once', async () => {
  const cases: [object, RegExp][] = [
    [{ permission: 'yolo' }, /^permission: /],
    [{ policy: { allow: [{}] } }, /^policy\.allow\[0\]: /],
    [{ policy: { deny: [{ comand: 'x' }] } }, /^policy\.deny\[0\]\.comand: .*did you mean command/],
    [{ onPermission: 'yes' }, /^onPermission: /],
    [{ tools: [{ name: 'x' }] }, /^tools\[0\]\.handler: /],
    [{ mcpServers: [{ name: 'x' }] }, /^mcpServers\[0\]: /],
    [{ settleMs: -1 }, /^settleMs: /],
    [{ allow: [''] }, /^allow\[0\]: /],
    [{ allow: ['git *', 'git log --output=*'] }, /^allow\[1\]: .*"--output=\*"/],
    [{ allow: ['git *'], permission: 'plan' }, /^allow: applies at permission "edit"/],
    [{ nonsense: 1 }, /^nonsense: no such option/],
  ]
  for (const [options, message] of cases) {
    const error = await failure(open(options as OpenOptions))
    expect([error.code, error.message]).toEqual(['INVALID_OPTION', expect.stringMatching(message)])
  }
  expect((await failure(open({}, 1, 'pi'))).message).toMatch(/^permission: /)
  await using session: AgentSession = await open()
  for (const [text, options] of [
    ['', {}],
    ['hi', { background: 'later' }],
    ['hi', { idleTimeoutMs: 'x' }],
  ] as const) {
    expect((await failure(session.prompt(text, options as never))).code).toBe('INVALID_OPTION')
  }
})

test('claude-code at "plan" has no tool that writes or runs something, over its adapter too', async () => {
  const log = join(folder, 'claude-plan.log')
  const binary = [...scripted(1), '--log', log]
  const beginning = async (permission: 'plan' | 'edit') => {
    rmSync(log, { force: true })
    await using _ = await open({ permission, binary }, 1, 'claude-code')
    return readFileSync(log, 'utf8')
  }
  const plan = await beginning('plan')
  expect(plan).toMatch(/"disallowedTools":\["Bash","PowerShell","Monitor".*"Write","Edit","NotebookEdit"/)
  expect(plan).toContain('"useAutoModeDuringPlan":false')
  const edit = await beginning('edit')
  expect(edit).not.toContain('disallowedTools')
  // As root, claude-code does not start if the mode without permissions is offered.
  for (const held of [plan, edit]) expect(held).toContain('"allowDangerouslySkipPermissions":false')
})

test('programs of mcpServers reach copilot by its command line, for it starts none that a session names', async () => {
  const log = join(folder, 'copilot-servers.log')
  // Notes its arguments and the file that they name, then is the scripted agent.
  const note = [
    'const { execFileSync } = require("child_process"), fs = require("fs")',
    'const given = process.argv.slice(1), file = /@(.*)/.exec(given.join(" "))?.[1]',
    `fs.writeFileSync(${JSON.stringify(log)}, JSON.stringify({ given, file: file && fs.readFileSync(file, "utf8") }) + "\\n")`,
    `execFileSync(process.execPath, [${JSON.stringify(agent)}, "--version", "1", "--start", "", "--log", ${JSON.stringify(log)}], { stdio: "inherit" })`,
  ]
  const binary = ['node', '-e', note.join('\n'), '--']
  const mcpServers = [
    { name: 'local', command: 'own', args: ['${HOME}'], env: { KEY: 'a$b' } },
    { name: 'far', url: 'https://tools.example/mcp' },
  ]
  const harness = new Harness({ provider: 'copilot' })
  await using session = await harness.open({ binary, cwd: folder, permission: 'auto', mcpServers })
  expect((await session.prompt('hello')).text).toBe('Hello world')
  const [start, ...lines] = readFileSync(log, 'utf8').trim().split('\n')
  const { file } = JSON.parse(start!)
  expect(JSON.parse(file).mcpServers).toMatchObject({
    local: { command: 'own', args: ['${SHEEPDOG_DOLLAR}{HOME}'], env: { KEY: 'a${SHEEPDOG_DOLLAR}b' } },
  })
  const asked = lines.find((line) => line.includes('"session/new"'))!
  expect(asked).toContain('tools.example')
  expect(asked).not.toContain('"local"')
  const named = await failure(
    harness.open({ binary, cwd: folder, permission: 'auto', mcpServers: [{ name: 'a b', command: 'own' }] }),
  )
  expect(named).toMatchObject({
    code: 'INVALID_OPTION',
    message: expect.stringMatching(/^mcpServers\[0\]\.name: /),
  })
})

test('a session holds its slot until it is closed', async () => {
  const limit = new ConcurrencyLimit(1)
  const harness = following([{ say: 'Hello.' }], { limit })
  const first = await harness.open()
  const second = harness.open()
  const order: string[] = []
  void second.then(() => order.push('second'))
  await first.prompt('hello')
  order.push('first closes')
  await first.close()
  await (await second).close()
  expect(order).toEqual(['first closes', 'second'])
})

test('an agent that is not installed is named with what installs it', async () => {
  const env = { PATH: '/nonexistent' }
  const error = await failure(new Harness({ provider: 'codex', cwd: folder }).open({ env }))
  expect(error.code).toBe('AGENT_NOT_FOUND')
  expect(error.install).toMatch(/^npm install -g @agentclientprotocol\/codex-acp@/)
})

test('a prompt has text, images and resources, as far as the agent takes them', async () => {
  const session = await open()
  const png = Buffer.from('\x89PNG\r\n\x1a\n...', 'latin1')
  const { text } = await session.prompt([
    { type: 'text', text: 'blocks ' },
    { type: 'image', mimeType: 'image/png', data: new Uint8Array(png) },
    { type: 'text', text: 'and' },
    { type: 'resource', uri: 'file:///work/src/a.ts' },
  ])
  expect(JSON.parse(text)).toEqual([
    { type: 'text', text: 'blocks ' },
    { type: 'image', mimeType: 'image/png', data: png.toString('base64') },
    { type: 'text', text: 'and' },
    { type: 'resource_link', uri: 'file:///work/src/a.ts', name: 'a.ts' },
  ])
  const refused = await failure(session.prompt([{ type: 'resource', uri: 'a', text: 'its text' }]))
  expect(refused).toMatchObject({
    code: 'INVALID_OPTION',
    message: expect.stringMatching(/^prompt\[0\]: gemini does not take the text of resources/),
  })
  for (const [prompt, path] of [
    [7, 'prompt'],
    [[{ type: 'audio' }], 'prompt[0].type'],
    [[{ type: 'image', data: 'x' }], 'prompt[0].mimeType'],
    [[{ type: 'image', mimeType: 'image/png', data: new Uint8Array([1, 2, 3]) }], 'prompt[0].data'],
  ] as const) {
    const wrong = await failure(session.prompt(prompt as never))
    expect(wrong.message.startsWith(`${path}: `)).toBe(true)
  }
  await session.close()
})

test('a session tells its title, its commands, its context and the files that it changed', async () => {
  const session = await open()
  expect(session.title).toBe(undefined)
  const turn = session.start('facts')
  const seen: SessionEvent[] = []
  for await (const event of turn) seen.push(event)
  expect(seen).toEqual(
    expect.arrayContaining([
      { type: 'title', title: 'The fix' },
      { type: 'commands', commands: [{ name: 'review', description: 'Reviews' }] },
      { type: 'context', usedTokens: 10, maxTokens: 100 },
      { type: 'diff', id: 'e1', path: '/work/a.txt', oldText: 'old', newText: 'new' },
    ]),
  )
  expect(session.title).toBe('The fix')
  await session.close()
})

test('sessions that an agent has kept are listed, page after page', async () => {
  const harness = new Harness({ provider: 'gemini', binary: [...scripted(1), '--lists', 'yes'], cwd: folder })
  const found: object[] = []
  for await (const session of harness.sessions()) found.push(session)
  expect(found).toEqual([
    { sessionId: 'new', title: 'The fix', updatedAt: new Date('2026-11-24T10:00:00Z') },
    { sessionId: 'old' },
  ])
  // The program of the harness belongs to its own agent.
  const other = new Harness({ provider: 'codex', binary: 'no-such-program', cwd: folder })
  const named = {
    name: 'scripted',
    command: process.execPath,
    args: [...scripted(1).slice(1), '--lists', 'yes'],
  }
  expect((await other.sessions({ provider: named }).next()).value).toEqual(found[0])
  const none = new Harness({ provider: 'gemini', binary: scripted(1), cwd: folder })
  expect(await failure(none.sessions().next())).toMatchObject({
    code: 'INVALID_OPTION',
    message: expect.stringContaining('does not list its sessions'),
  })
  expect(alive()).toEqual([])
})
