// The README's comparison: what happens, tried with each of the three.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect, it } from 'vitest'
import { installNode } from '../trials/agents/install.mjs'
import { run } from '..'
import { isAlive } from './alive'

const root = join(import.meta.dirname, '..')
const folder = mkdtempSync(join(tmpdir(), 'sheepdog-comparison-'))
const leftovers: number[] = []
afterAll(() => {
  for (const pid of leftovers.filter(isAlive)) process.kill(pid, 'SIGKILL')
  rmSync(folder, { recursive: true, force: true })
})

/** execa 10 needs Node 22. */
const node22 = join(installNode(), 'node')
const execaHost = (script: string, options: object, after = '') =>
  `import('execa').then(({ execa }) => execa('sh', ['-c', ${JSON.stringify(script)}], ${JSON.stringify(options)})).then(({ stdout, failed }) => {${after}})`

interface Limits {
  timeoutMs?: number
  maxBytes?: number
}
interface End {
  stdout: string
  isError: boolean
}
type Tool = (script: string, limits?: Limits) => Promise<End>

/** Each with the option that it has for this. */
const tools: Record<string, Tool> = {
  child_process: (script, { timeoutMs, maxBytes } = {}) =>
    new Promise((resolve) =>
      execFile('sh', ['-c', script], { timeout: timeoutMs, maxBuffer: maxBytes }, (error, stdout) =>
        resolve({ stdout, isError: error !== null }),
      ),
    ),
  'execa 10.2': async (script, { timeoutMs, maxBytes } = {}) => {
    const options = { timeout: timeoutMs, maxBuffer: maxBytes, reject: false, killDescendants: true }
    const host = spawn(
      node22,
      ['-e', execaHost(script, options, 'console.log(JSON.stringify({ stdout, isError: failed }))')],
      {
        cwd: root,
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    )
    leftovers.push(host.pid!)
    return JSON.parse(await text(host.stdout)) as End
  },
  Sheepdog: async (script, { timeoutMs, maxBytes } = {}) => {
    const options = { timeoutMs, maxOutputBytes: maxBytes }
    const end = await run('sh', ['-c', script], options).then(
      (result) => ({ result, isError: false }),
      (error) => ({ result: error.result, isError: true }),
    )
    return { stdout: end.result.stdout, isError: end.isError }
  },
}

/** What has not happened by then never does: long where it is said to happen, so that a slow machine is no finding. */
const patienceMs = { yes: 30_000, no: 4_000 }

/** As a host program writes it; the program prints its process id into the file. */
const hosts: Record<string, (script: string) => string> = {
  child_process: (script) => `require('node:child_process').spawn('sh', ['-c', ${script}])`,
  'execa 10.2': (script) => execaHost(JSON.parse(script) as string, { killDescendants: true }),
  Sheepdog: (script) => `require(${JSON.stringify(root)}).spawn('sh', ['-c', ${script}])`,
}

async function appears(file: string): Promise<number> {
  for (;;) {
    try {
      const pid = Number(readFileSync(file, 'utf8'))
      if (pid > 0) return pid
    } catch {
      // Not yet.
    }
    await sleep(20)
  }
}

/** Whether it dies within so long: what is killed dies soon, what is forgotten never does. */
async function dies(pid: number, patienceMs: number): Promise<boolean> {
  leftovers.push(pid)
  for (const until = performance.now() + patienceMs; performance.now() < until; await sleep(25))
    if (!isAlive(pid)) return true
  return false
}

const rows: Record<string, (tool: Tool, name: string, patienceMs: number) => Promise<boolean>> = {
  'output so far is in the error of a timeout': async (tool) =>
    (await tool('echo so far; exec sleep 600', { timeoutMs: 3000 })).stdout.includes('so far'),
  'a timeout ends what the program started': async (tool, name, patienceMs) => {
    const file = join(folder, `child-${name}`)
    const script = `sleep 600 > /dev/null 2>&1 & echo $! > '${file}'; wait`
    await tool(script, { timeoutMs: 3000 })
    return dies(await appears(file), patienceMs)
  },
  '... daemons too (`setsid`)': async (tool, name, patienceMs) => {
    const file = join(folder, `daemon-${name}`)
    const script = `setsid sh -c 'echo $$ > "${file}"; exec sleep 600' > /dev/null 2>&1 & exec sleep 600`
    await tool(script, { timeoutMs: 3000 })
    return dies(await appears(file), patienceMs)
  },
  'it settles when the program exits, although a process that it left holds its output': async (
    tool,
    name,
    patienceMs,
  ) => {
    const file = join(folder, `holder-${name}`)
    const held = tool(`sleep 600 & echo $! > '${file}'`)
    leftovers.push(await appears(file))
    return Promise.race([held.then(() => true), sleep(patienceMs, false)])
  },
  'output beyond the limit leaves the program running': async (tool) => {
    const { stdout, isError } = await tool('yes | head -c 100000; echo end', { maxBytes: 1000 })
    return !isError && stdout.includes('end')
  },
  'the program dies with its host, `SIGKILL` included': async (_, name, patienceMs) => {
    const file = join(folder, `host-${name}`)
    const script = JSON.stringify(`echo $$ > '${file}'; exec sleep 600`)
    const host = spawn(
      name.startsWith('execa') ? node22 : process.execPath,
      ['-e', `${hosts[name]!(script)}; setInterval(() => {}, 1e6)`],
      {
        cwd: root,
        stdio: 'ignore',
      },
    )
    const pid = await appears(file)
    host.kill('SIGKILL')
    await once(host, 'exit')
    return dies(pid, patienceMs)
  },
}

function table(): Record<string, Record<string, string>> {
  const readme = readFileSync(join(root, 'README.md'), 'utf8')
  const [, text = ''] = /<!-- table: comparison -->\n([\s\S]*?)<!-- end of table -->/.exec(readme) ?? []
  const [head = [], , ...lines] = text
    .trim()
    .split('\n')
    .map((line) => line.split('|').map((cell) => cell.trim()))
  return Object.fromEntries(
    lines.map(([, title = '', ...cells]) => [
      title,
      Object.fromEntries(head.slice(2, -1).map((name, index) => [name, cells[index]!])),
    ]),
  )
}

it.skipIf(process.platform !== 'linux')('is what happens', async () => {
  const written = table()
  const answer = async (title: string, happens: (typeof rows)[string]) => {
    const answers = Object.entries(tools).map(async ([name, tool]) => {
      const patience = patienceMs[written[title]?.[name] === 'no' ? 'no' : 'yes']
      return [name, (await happens(tool, name, patience)) ? 'yes' : 'no']
    })
    return Object.fromEntries(await Promise.all(answers)) as Record<string, string>
  }
  // Most of it is waiting for what does not happen.
  const found = Object.fromEntries(
    await Promise.all(
      Object.entries(rows).map(async ([title, happens]) => [title, await answer(title, happens)]),
    ),
  ) as Record<string, Record<string, string>>
  expect(Object.fromEntries(Object.keys(found).map((title) => [title, written[title]]))).toEqual(found)
})
