// These cases show the parts that Windows has, programs in jobs, and the errors of the parts that are missing. The programs are Node.js.
import { spawn as plain } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { agentCases } from './agent-cases.mjs'
import { portableCases } from './portable-cases.mjs'
import { npmShim } from './shim.mjs'
import {
  Harness,
  equal,
  js,
  listTrees,
  reapTrees,
  refusal,
  run,
  spawn,
  stopTree,
  until,
  work,
} from './tools.mjs'

/** Runs until it is killed. */
const ENDLESS = 'setInterval(() => {}, 1e6)'
/** Starts a program that is away from console, group and pipes of its parent, and tells both numbers. */
const PARENT = `
  const child = require('child_process').spawn(process.execPath, ['-e', '${ENDLESS}'], { detached: true, stdio: 'ignore' })
  console.log(process.pid, child.pid); child.unref();`
/** The same, and it stays. */
export const PATIENT_PARENT = `${PARENT} ${ENDLESS}`

const programs = {
  async 'a prompt of 40,000 characters'() {
    const prompt = 'p'.repeat(40_000)
    const error = await refusal(run(process.execPath, ['-e', '0', prompt]))
    const { stdout } = await js('process.stdin.pipe(process.stdout)', { input: prompt })
    equal([error.code, stdout === prompt], ['PROCESS_ARGUMENT_TOO_LONG', true])
    return error.code
  },
  async 'arguments with quotes, spaces and backslashes'() {
    const words = ['', ' ', 'a b', '"', '\\', 'a\\"b', 'c:\\x y\\', '&', '%PATH%', '^', 'ü', '\n']
    const program = 'process.stdout.write(JSON.stringify(process.argv.slice(1)))'
    const { stdout } = await run(process.execPath, ['-e', program, '--', ...words])
    equal(JSON.parse(stdout), words)
  },
  async 'a batch file in a path with a space'() {
    const folder = folderWith('batch file', { 'tool.cmd': '@echo [%1]\r\n' })
    const { stdout } = await run('tool', ['a b&c'], { env: withFirst(folder) })
    equal(stdout.trim(), '["a b&c"]')
  },
  async "npm's shim in a path with a space"() {
    const script = 'process.stdout.write(JSON.stringify(process.argv.slice(2)))'
    const folder = folderWith('shims of npm', {
      'tool.cmd': npmShim('package\\tool.js'),
      // npm puts a script for Unix beside each.
      tool: '#!/bin/sh\n',
      'package/tool.js': script,
    })
    // No shell reads them: it would change each of these, and takes 8,191 characters.
    const words = ['%PATH%', '^&', 'a\nb', '"', 'x'.repeat(20_000)]
    const { stdout } = await run('tool', words, { env: withFirst(folder) })
    equal(JSON.parse(stdout), words)
  },
  async 'an argument that no shim can take'() {
    writeFileSync(join(work, 'shim.cmd'), '@echo [%~1]\r\n')
    const error = await refusal(run(join(work, 'shim.cmd'), ['a\n&calc']))
    return error.code
  },
  async 'a path of 300 characters'() {
    const folder = join(work, 'd'.repeat(100), 'e'.repeat(100), 'f'.repeat(100))
    mkdirSync(folder, { recursive: true })
    const child = spawn(process.execPath, ['-e', 'console.log("saved")'])
    await child.saveOutput({ stdout: join(folder, 'saved') })
    equal(readFileSync(join(folder, 'saved'), 'utf8'), 'saved\n')
    const input = { file: join(folder, 'saved') }
    equal((await js('process.stdin.pipe(process.stdout)', { input })).stdout, 'saved\n')
    // No program is started in such a folder. Without the refusal wine 8 ends itself.
    equal((await refusal(js('0', { cwd: folder }))).code, 'PROCESS_SPAWN_FAILED')
  },
  async 'a missing program'() {
    equal((await refusal(run('no-such-program'))).code, 'PROCESS_NOT_FOUND')
  },
  async "a turn of an agent, behind npm's shim"() {
    const script = readFileSync(join(import.meta.dirname, 'agent/scripted.mjs'), 'utf8')
    const folder = folderWith('agents', { 'codex.cmd': npmShim('codex.mjs'), 'codex.mjs': script })
    const env = withFirst(folder)
    const { text } = await new Harness({ provider: 'codex', env }).run('What is here?')
    equal(text, 'There is one file: flock.txt.')
  },
  ...portableCases,
  ...agentCases,
}

const trees = {
  async 'a detached grandchild is killed'() {
    const { stdout, straysKilled } = await js(PARENT)
    equal([straysKilled, pidsIn(stdout).map(isAlive)], [1, [false, false]])
  },
  async 'a child that holds the pipes'() {
    const program = `require('child_process').spawn(process.execPath, ['-e', '${ENDLESS}'], { stdio: 'inherit', detached: true }).unref(); console.log('started')`
    const { stdout, straysKilled } = await js(program, { drainMs: 500 })
    equal([stdout, straysKilled], ['started\n', 1])
  },
  async 'a silent program is killed'() {
    const error = await refusal(js(PATIENT_PARENT, { idleTimeoutMs: 5000 }))
    equal([error.code, pidsIn(error.result.stdout).map(isAlive)], ['PROCESS_IDLE', [false, false]])
  },
  async 'a slow program is stopped'() {
    const endless = js(`process.on('SIGBREAK', () => {}); ${ENDLESS}`, {
      timeoutMs: 4000,
      killGraceMs: 200,
    })
    equal((await refusal(endless)).code, 'PROCESS_TIMED_OUT')
  },
  async abort() {
    const controller = new AbortController()
    const child = spawn(process.execPath, ['-e', PATIENT_PARENT], { signal: controller.signal })
    await child.started
    controller.abort()
    equal((await refusal(child.result)).code, 'PROCESS_ABORTED')
  },
  async kill() {
    const child = spawn(process.execPath, ['-e', PATIENT_PARENT])
    const pids = pidsIn(await firstLine(child))
    const before = pids.map(isAlive)
    await child.kill('SIGKILL')
    equal(
      [before, pids.map(isAlive)],
      [
        [true, true],
        [false, false],
      ],
    )
  },
  async ps() {
    const child = spawn(process.execPath, ['-e', ENDLESS], { name: 'a name' })
    await child.started
    await until(async () => (await listTrees()).some(({ name }) => name === 'a name'))
    await child.kill('SIGKILL')
  },
  async 'reap and stop'() {
    const child = spawn(process.execPath, ['-e', PATIENT_PARENT], { name: 'running' })
    const pids = pidsIn(await firstLine(child))
    const host = plain(process.execPath, [join(import.meta.dirname, 'windows-host.mjs')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await new Promise((resolve) => host.stdout.once('data', resolve))
    host.kill('SIGKILL')
    await once(host, 'exit')
    // The job has ended what that host left; what a living host runs is left alone.
    equal(
      (await reapTrees()).filter(({ left }) => left > 0),
      [],
    )
    equal(pids.map(isAlive), [true, true])
    const tree = (await listTrees()).find(({ name }) => name === 'running')
    await stopTree(tree.id)
    await until(() => !pids.some(isAlive))
    await child.result.catch(() => undefined)
  },
  async 'nothing survives a terminated host'() {
    const host = plain(process.execPath, [join(import.meta.dirname, 'windows-host.mjs')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const pids = pidsIn(await new Promise((resolve) => host.stdout.once('data', resolve)))
    equal(pids.map(isAlive), [true, true])
    host.kill('SIGKILL')
    await until(() => !pids.some(isAlive))
  },
}

const sandbox = Object.fromEntries([
  refused('sandbox', { sandbox: { write: ['.'] } }, 'SANDBOX_UNAVAILABLE'),
  refused('containment: "strict"', { containment: 'strict' }, 'CONTAINMENT_UNAVAILABLE'),
  refused('memoryMaxBytes', { memoryMaxBytes: 1e9 }, 'CONTAINMENT_UNAVAILABLE'),
  refused('pty', { pty: true }, 'INVALID_OPTION'),
])

export const windowsAreas = { programs, trees, sandbox }

/** A case of an option that is missing there. */
function refused(name, options, code) {
  const attempt = async () => {
    equal((await refusal(js('0', options))).code, code)
    return code
  }
  return [`${name} is refused`, attempt]
}

/** A search path on which this folder is first, and then that of Node.js. */
const withFirst = (folder) => ({
  Path: [folder, dirname(process.execPath), process.env.PATH].join(delimiter),
})

/** A folder with these files, by their names. */
function folderWith(name, files) {
  for (const [file, text] of Object.entries(files)) {
    const path = join(work, name, file)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
  }
  return join(work, name)
}

/** The first line that a program prints. The rest is read too. */
function firstLine(child) {
  return new Promise((resolve, reject) => {
    const read = async () => {
      for await (const { text } of child.lines()) resolve(text)
    }
    read().then(() => reject(new Error('it printed nothing')), reject)
  })
}

const pidsIn = (text) => `${text}`.trim().split(/\s+/).map(Number)

function isAlive(pid) {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
