// SHEEPDOG_LOG: what owners heard and decided, in a process of its own each, because it is looked at when the addon is loaded.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, expect, test } from 'vitest'
import { player, session, said, done, failed, tool, counting } from './played-agent'

const folder = mkdtempSync(join(tmpdir(), 'log-spec-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const index = join(__dirname, '..', 'index.js')
const scripted = join(__dirname, '..', 'fixtures', 'acp', 'agent.mjs')

function host(body: string, log: string | null) {
  const program = `const { run, Harness } = require(${JSON.stringify(index)})
    const codex = (plan, options) => new Harness({ provider: 'codex', cwd: ${JSON.stringify(folder)},
      binary: ['node', ${JSON.stringify(player)}, JSON.stringify(plan)], ...options })
    const code = (error) => console.log(error.code)
    const main = async () => { ${body} }
    main().then(() => process.exit())`
  const env: NodeJS.ProcessEnv = { ...process.env, SHEEPDOG_LOG: log ?? undefined }
  return spawn(process.execPath, ['-e', program], { env, stdio: ['ignore', 'pipe', 'pipe'] })
}

/** What a host printed and logged; the lines of the log without their times. */
async function logged(body: string, log: string | null = 'debug') {
  const child = host(body, log)
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  const lines = stderr.split('\n').filter((line) => line !== '')
  for (const line of lines.filter((line) => line.includes(' sheepdog ')))
    expect(line).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z sheepdog (run|turn|session) \d+: /)
  return { stdout, stderr, lines: lines.map((line) => line.replace(/^\S+Z sheepdog /, '')) }
}

/** That these come in this order, whatever stands between. */
function inOrder(lines: string[], ...wanted: RegExp[]) {
  let from = 0
  for (const pattern of wanted) {
    const at = lines.findIndex((line, index) => index >= from && pattern.test(line))
    expect(at, `${pattern} in\n${lines.slice(from).join('\n')}`).toBeGreaterThanOrEqual(0)
    from = at + 1
  }
}

test('a run is told from its start to its end, in order', async () => {
  const { lines, stdout } = await logged(`console.log((await run('echo', ['hello'])).stdout)`)
  expect(stdout).toBe('hello\n\n')
  inOrder(
    lines,
    /^run 1: runs pid=\d+ ps=[0-9a-f]{16} containment=\w+$/,
    /^run 1: heard that its command exited$/,
    /^run 1: decided step=EndDrain reason=None silent_ms=\d+$/,
    /^run 1: heard that its tree is gone code=0 signal=None strays_killed=0 strays_left=0$/,
    /^run 1: ended error=none duration_ms=\d+$/,
  )
  // Before the exit or after it: the system says which comes first.
  inOrder(lines, /^run 1: runs /, /^run 1: heard the first of its output stream=Stdout$/, /^run 1: ended /)
})

test('a kill for silence is told: what was decided, why, after how long', async () => {
  const { lines } = await logged(`await run('sleep', ['1000'], { idleTimeoutMs: 50 }).catch(code)`)
  inOrder(
    lines,
    /^run 1: runs /,
    /^run 1: decided step=Kill reason=Some\(Idle\) silent_ms=\d+$/,
    /^run 1: heard that its command exited$/,
    /^run 1: heard that its tree is gone .*signal=Some\(9\)/,
    /^run 1: ended error=PROCESS_IDLE /,
  )
})

test('a turn is told with its attempts, the runs below it and what followed', async () => {
  const plan = [
    counting(
      [session, failed('stream error: 503 Service Unavailable')],
      [session, tool, said('Hello.'), done],
    ),
  ]
  const { lines, stdout } = await logged(`
    const harness = codex(${JSON.stringify(plan)}, { retry: { baseDelayMs: 1 } })
    console.log((await harness.run('Say hello.')).text)`)
  expect(stdout).toBe('Hello.\n')
  inOrder(
    lines,
    /^turn 1: begins provider=codex resumes=false has_schema=false$/,
    /^turn 1: has a slot /,
    /^turn 1: begins an attempt run=2 resumes=false$/,
    /^run 2: runs /,
    /^turn 1: judged the attempt error=AGENT_FAILED exit_code=0 /,
    /^turn 1: decided: tried again attempts=1 after_ms=\d+$/,
    /^turn 1: begins an attempt run=3 /,
    /^turn 1: heard where the agent is in_tool=true /,
    /^turn 1: judged the attempt error=none /,
    /^turn 1: decided: done attempts=2$/,
    /^turn 1: ended error=none attempts=2$/,
  )
})

test('a turn ended by its clock, and one by its signal, say which', async () => {
  const { lines } = await logged(`
    const hangs = codex(${JSON.stringify([session, { hang: true }])})
    await hangs.run('one', { idleTimeoutMs: 50 }).catch(code)
    const turn = hangs.start('two')
    for await (const event of turn) turn.abort()
    await turn.result.catch(code)`)
  inOrder(
    lines,
    /^turn 1: heard the clock due=Idle /,
    /^turn 1: decided: the attempt is stopped stop=Idle /,
    /^run 2: is to be stopped reason=Idle signal=None$/,
    /^run 2: decided step=Kill reason=Some\(Idle\)/,
    /^turn 1: ended error=AGENT_IDLE /,
    /^turn 3: decided: the attempt is stopped stop=Aborted$/,
    /^turn 3: ended error=AGENT_ABORTED /,
  )
})

test('a session is told: opened, prompted, its end', async () => {
  const { lines, stdout } = await logged(`
    const binary = ['node', ${JSON.stringify(scripted)}, '--version', '1', '--start', '']
    const session = await new Harness({ provider: 'gemini' }).open({ binary, cwd: ${JSON.stringify(folder)} })
    console.log((await session.prompt('hello')).text)
    await session.close()`)
  expect(stdout).not.toBe('')
  inOrder(
    lines,
    /^session \d+: is open run=1 agent=\S+ version=One$/,
    /^session \d+: sends a prompt turn=1$/,
    /^session \d+: heard the end of the turn /,
    /^session \d+: judged the turn turn=1 error=none$/,
    /^session \d+: is to be closed$/,
    /^session \d+: ended turns=1$/,
  )
})

const everything = `
  const secret = 'hunter2-hunter2'
  const env = { THE_API_KEY: secret, PATH: process.env.PATH }
  await run('sh', ['-c', 'echo ' + secret + ' >&1; echo ' + secret + ' >&2; exit 3', secret], { env, name: secret }).catch(code)
  await run('/nowhere/' + secret).catch(code)
  const plan = [{ stderr: secret }, { line: { type: 'thread.started', thread_id: secret } }, { line: secret },
    { line: { type: 'turn.failed', error: { message: secret } } }]
  await codex(plan, { env, name: secret, systemPrompt: secret, model: secret }).run(secret).catch(code)`

test('nothing that is passed, printed or answered is in it, at the finest level either', async () => {
  const { stderr, stdout } = await logged(everything, 'trace')
  expect(stdout).toBe('PROCESS_NOT_FOUND\nAGENT_FAILED\n')
  expect(stderr).toContain(': read stream=Stdout bytes=16')
  expect(stderr).not.toContain('hunter2')
})

test.each([null, '', 'off'])('off, it prints nothing (%s)', async (log) => {
  const { stderr } = await logged(everything, log)
  expect(stderr).toBe('')
})

test('another word is told, and nothing is logged', async () => {
  const { stderr } = await logged(`await run('true')`, 'verbose')
  expect(stderr).toBe('SHEEPDOG_LOG: expected "debug", "trace" or "off"; nothing is logged\n')
})

test('a reader of stderr that takes nothing keeps no run waiting', async () => {
  const child = host(
    `for (let runs = 0; runs < 40; runs++) await run('sh', ['-c', 'for i in $(seq 100); do echo $i; done'])
     await codex(${JSON.stringify([session, said('Hello.'), done])}).run('hi')
     console.log('done')
     for (;;) await new Promise((resolve) => setTimeout(resolve, 1e6))`,
    'trace',
  )
  // A pipe holds 64 KiB, and what `trace` says of these is more. Nobody reads.
  let printed = ''
  for await (const chunk of child.stdout) {
    printed += chunk
    if (printed.includes('done')) break
  }
  expect(printed).toBe('done\n')
  child.kill('SIGKILL')
  await once(child, 'exit')
})
