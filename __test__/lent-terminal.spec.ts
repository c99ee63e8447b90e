// A terminal that is lent by `stdio: 'inherit'`: keys that are signals, job control of a shell, and how the terminal is afterwards. The
// same under child_process, where a program can tell. The table of host-situations.ts has the simple cases.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect, it } from 'vitest'
import { run, spawn } from '..'

const root = join(import.meta.dirname, '..')
const top = mkdtempSync(join(tmpdir(), 'lent-terminal-'))
afterAll(() => rmSync(top, { recursive: true }))

const tools = ['child_process', 'sheepdog'] as const
let hosts = 0

/** Writes a host program, and gives the command that starts it. */
function hostOf(tool: string, body: string): string {
  const file = join(top, `host-${hosts++}.cjs`)
  const call = JSON.stringify(join(root, 'fixtures/host/call.cjs'))
  writeFileSync(file, `const { call } = require(${call}); (async () => {${body}})()`)
  return `HOST_TOOL=${tool} HOST_PACKAGE=${root} ${process.execPath} ${file}`
}

/** An interactive shell with job control on a terminal of its own. */
function shellIn(folder: string) {
  const shell = spawn('bash', ['--norc', '--noprofile', '-i'], {
    cwd: folder,
    env: { PS1: '%% ' },
    pty: true,
    stdin: 'pipe',
    timeoutMs: 30_000,
  })
  const type = (keys: string) => shell.stdin.write(keys)
  return Object.assign(shell, { type })
}

it.concurrent.each(tools)('Ctrl-C ends the host, and its program cleans up: %s', async (tool) => {
  const folder = mkdtempSync(join(top, 'clean-'))
  const script = 'trap "sleep 0.4; echo x > cleaned; exit" INT; echo ready; while :; do sleep 0.05; done'
  await using shell = shellIn(folder)
  await shell.type(
    hostOf(tool, `await call('sh', ['-c', ${JSON.stringify(script)}], { stdio: 'inherit' })`) + '\r',
  )
  await shell.expect(/ready\r?\n/)
  await shell.type('\u0003')
  for (let waited = 0; waited < 4000 && !existsSync(join(folder, 'cleaned')); waited += 20) await sleep(20)
  expect(existsSync(join(folder, 'cleaned'))).toBe(true)
})

it.concurrent.each(tools)('Ctrl-Z stops host and program, and fg continues both: %s', async (tool) => {
  await using shell = shellIn(top)
  const program = `
    process.on('SIGCONT', () => console.log('again'))
    process.stdin.once('data', (line) => { console.log('got', String(line).trim()); process.exit() })
    console.log('ready')`
  const host = hostOf(
    tool,
    `const { status } = await call(process.execPath, ['-e', ${JSON.stringify(program)}], { stdio: 'inherit' }); console.log('status', status)`,
  )
  await shell.type(host + '\r')
  await shell.expect(/ready\r?\n/)
  await shell.type('\u001a')
  await shell.expect('Stopped')
  await shell.type('fg\r')
  // Before that the shell reads the keys in its own mode.
  await shell.expect(/again\r?\n/)
  await shell.type('words\r')
  await shell.expect('got words')
  await shell.expect('status 0')
})

it.concurrent('the terminal of a program that was killed is as it was before', async () => {
  await using shell = shellIn(top)
  // A job of its own in the foreground, and no mode as it was.
  const script = 'stty raw -echo; set -m; sleep 20'
  const host = hostOf(
    'sheepdog',
    `
    const { run } = require(${JSON.stringify(root)})
    await run('bash', ['-c', ${JSON.stringify(script)}], { stdio: 'inherit', timeoutMs: 600, killGraceMs: 100 }).catch(({ code }) => console.log(code))
    require('node:readline').createInterface({ input: process.stdin }).once('line', (line) => { console.log('heard ' + line); process.exit() })`,
  )
  await shell.type(`stty -g > before; ${host}; stty -g > after; cmp before after && echo "as ""before"\r`)
  await shell.expect('PROCESS_TIMED_OUT')
  await shell.type('a line\r')
  await shell.expect('heard a line')
  await shell.expect('as before')
})

it.concurrent('a program that ends by itself leaves the modes that it wants', async () => {
  const script = 'stty -a | grep -ow -e -echo'
  const host = hostOf(
    'sheepdog',
    `await call('stty', ['-echo'], { stdio: 'inherit' }); await call('sh', ['-c', ${JSON.stringify(script)}], { stdio: 'inherit' })`,
  )
  expect((await run('sh', ['-c', host], { pty: true })).stdout).toBe('-echo\r\n')
})

it.concurrent.each(['sandbox: { write: ["."] }', 'containment: "strict"'])(
  'is in another session with %s',
  async (option) => {
    const body = `
    const { run } = require(${JSON.stringify(root)})
    await run('sh', ['-c', '(: < /dev/tty) 2> /dev/null || echo "has ""none"'], { stdio: 'inherit', ${option} }).catch((error) => console.log('refused', error.code))`
    const { stdout } = await run('sh', ['-c', hostOf('sheepdog', body)], { pty: true, cwd: top })
    expect(stdout).toMatch(/has none|refused (SANDBOX|CONTAINMENT)_UNAVAILABLE/)
  },
)
