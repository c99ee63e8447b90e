// The host as it is, under child_process and under Sheepdog: the table of host-situations.ts, and what differs on purpose, which
// docs/moving-over.md has from the same table.
import { execFile, execFileSync, spawn as spawnChild } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterAll, describe, expect, it } from 'vitest'
import { spawn } from '..'
import { isAlive } from './alive'
import { situations, type Situation } from './host-situations'

const root = join(import.meta.dirname, '..')
const top = mkdtempSync(join(tmpdir(), 'host-spec-'))
// Deeper than a path can say, for some.
afterAll(() => void execFileSync('rm', ['-rf', top]))

const isRoot = process.getuid?.() === 0
const tools = ['child_process', 'sheepdog'] as const

const hostOf = (body: string) => `
  const fs = require('node:fs')
  const { call, isSheepdog } = require(${JSON.stringify(join(root, 'fixtures/host/call.cjs'))})
  const folder = process.cwd()
  const begun = async () => {
    while (!fs.existsSync(folder + '/pid') || !fs.readFileSync(folder + '/pid', 'utf8').trim())
      await new Promise((done) => setTimeout(done, 10))
  }
  const inWorker = (options, body) => new Promise((done, failed) => {
    const code = 'const { call } = require(' + ${JSON.stringify(JSON.stringify(join(root, 'fixtures/host/call.cjs')))} + ');' +
      '(async () => {' + body + '})().then((result) => require("node:worker_threads").parentPort.postMessage(result))'
    new (require('node:worker_threads').Worker)(code, { ...options, eval: true }).on('message', done).on('error', failed)
  })
  ;(async () => {${body}})().then(
    (result) => fs.writeSync(1, '<<' + JSON.stringify(result ?? null) + '>>'),
    (error) => fs.writeSync(1, '<<' + JSON.stringify(String(error)) + '>>'),
  )`

async function outcomeOf({ script, by, keys }: Situation, tool: string, folder: string): Promise<unknown> {
  mkdirSync(folder, { mode: 0o755, recursive: true })
  const host = [process.execPath, '-e', hostOf(script)]
  const env = { ...process.env, HOST_TOOL: tool, HOST_PACKAGE: root, SHEEPDOG_LOG: undefined }
  if (keys !== undefined) return onTerminal(host, { cwd: folder, env }, keys)
  const command = by === undefined ? host : ['sh', '-c', by, 'sh', ...host]
  const child = spawnChild(command[0]!, command.slice(1), {
    cwd: folder,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (text: Buffer) => (stdout += text.toString()))
  child.stderr.on('data', (text: Buffer) => (stderr += text.toString()))
  // A program that lives on may hold the pipes for longer.
  const outlives = script.includes('begun()')
  await new Promise((done) => child.on(outlives ? 'exit' : 'close', done))
  child.stdout.destroy()
  child.stderr.destroy()
  if (outlives) return fateOf(Number(readFileSync(join(folder, 'pid'), 'utf8')))
  const told = /<<(.*)>>/s.exec(stdout)?.[1]
  if (told === undefined) throw new Error(`the host told nothing: ${stdout}${stderr}`)
  return JSON.parse(told)
}

/** Whether the program ends with its host. */
async function fateOf(pid: number): Promise<string> {
  for (let waited = 0; waited < 2000 && isAlive(pid); waited += 20) await sleep(20)
  if (!isAlive(pid)) return 'it ended'
  process.kill(pid, 'SIGKILL')
  return 'it lives on'
}

/** The text that the terminal shows after the program was ready. */
async function onTerminal(
  [file, ...args]: string[],
  options: { cwd: string; env: Record<string, string | undefined> },
  keys: string,
): Promise<string> {
  await using host = spawn(file!, args, { ...options, pty: true, stdin: 'pipe', timeoutMs: 20_000 })
  await host.expect('ready')
  await host.stdin.write(keys)
  const { stdout } = await host.result
  return stdout
    .slice(stdout.indexOf('ready'))
    .replaceAll('\r', '')
    .replace(/"stdout":"[^"]*","stderr":"[^"]*"|"stdout":null[^}]*|\^[C\\]/g, '')
}

describe('the host as it is', () => {
  it.concurrent.each(situations.map((situation, index) => ({ ...situation, index })))(
    '$name',
    async (situation) => {
      if (situation.by?.includes('setpriv') && !isRoot) return
      const [there, here] = await Promise.all(
        tools.map((tool) => outcomeOf(situation, tool, join(top, tool, `${situation.index}`))),
      )
      if (situation.differs) expect(here).not.toEqual(there)
      else expect(here).toEqual(there)
    },
  )

  it('is what docs/moving-over.md says where it differs', () => {
    const rows = new Map<string, string[]>()
    for (const { name, differs } of situations) {
      if (!differs) continue
      const key = `${differs.here} | ${differs.because} |`
      rows.set(key, [...(rows.get(key) ?? []), name])
    }
    const lines = [...rows].map(([text, names]) => `| ${names.join('; ')} | ${text}`)
    const page = readFileSync(join(root, 'docs/moving-over.md'), 'utf8')
    expect(lines.filter((line) => !page.includes(line))).toEqual([])
  })
})

it('a test runner with each of its pools, its environment and its fake timers', async () => {
  const folder = join(top, 'pools')
  mkdirSync(folder)
  const pools = ['forks', 'threads', 'vmForks', 'vmThreads']
  writeFileSync(
    join(folder, 'vitest.config.mjs'),
    `export default { test: { projects: ${JSON.stringify(pools)}.map((pool) => ({ test: { name: pool, pool, globals: true, include: ['*.spec.mjs'] } })) } }`,
  )
  writeFileSync(
    join(folder, 'host.spec.mjs'),
    `import { createRequire } from 'node:module'
    import { execFileSync } from 'node:child_process'
    const { run } = createRequire(import.meta.url)(${JSON.stringify(root)})
    it('runs', async () => {
      process.env.A = '1'
      delete process.env.SECRET
      vi.useFakeTimers({ toFake: ['setTimeout', 'setInterval', 'setImmediate', 'performance', 'Date'] })
      const script = ['-c', 'echo "$A-\${SECRET-none}"; cat']
      function* input() { for (let i = 0; i < 4; i++) { for (const until = process.hrtime.bigint() + 6_000_000n; process.hrtime.bigint() < until; ); yield i + '\\n' } }
      const { stdout } = await run('sh', script, { input: input() })
      expect(stdout).toBe(execFileSync('sh', script, { input: '0\\n1\\n2\\n3\\n', encoding: 'utf8' }))
      expect(stdout).toBe('1-none\\n0\\n1\\n2\\n3\\n')
    })`,
  )
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [join(root, 'node_modules/vitest/vitest.mjs'), 'run', '--root', folder],
    { env: { ...process.env, SECRET: 'x', NO_COLOR: '1' } },
  ).catch((error: { stdout: string; stderr: string }) => ({ stdout: error.stdout + error.stderr }))
  expect(stdout).toMatch(/Tests +4 passed/)
})

it.runIf(isRoot)('as process 1 of a container, an interrupted run is no success', async () => {
  const cli = join(root, 'cli/sheepdog.js')
  const args = [
    '-pf',
    '--mount-proc',
    process.execPath,
    cli,
    'run',
    '--json',
    '--',
    'sh',
    '-c',
    'echo ready; sleep 30',
  ]
  const container = spawnChild('unshare', args, { stdio: ['ignore', 'pipe', 'inherit'] })
  let told = ''
  container.stdout.on('data', (text: Buffer) => {
    if (!told.includes('ready') && `${told}${text}`.includes('ready')) {
      const inside = readFileSync(`/proc/${container.pid}/task/${container.pid}/children`, 'utf8')
      process.kill(Number(inside.trim()), 'SIGINT')
    }
    told += text.toString()
  })
  const status = await new Promise((done) => container.on('close', done))
  expect([status, JSON.parse(told.trim().split('\n').at(-1)!)]).toEqual([
    130,
    expect.objectContaining({ exitStatus: 130 }),
  ])
})
