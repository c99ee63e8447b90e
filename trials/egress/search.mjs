// A search for the real key in everything that a run leaves: variables, arguments and memory of every process of its tree, a core dump, its
// record, the host's log, its artifacts, and all answers of the page. The host process itself is the control: there the key is.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, openSync, readFileSync, readSync, rmSync, statSync, closeSync } from 'node:fs'
import { createServer } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createRequire } from 'node:module'
import { processesWith } from '../../fixtures/agent-cases.mjs'
import { root } from '../../scripts/step.mjs'
import { KEY, filesIn, filesWith, identity, listed, listening, name } from './outside.mjs'

const PIECE = 1 << 20

/** Whether the key is in the memory of a process. */
function inMemory(pid) {
  const memory = openSync(`/proc/${pid}/mem`, 'r')
  let looked = 0
  try {
    for (const line of readFileSync(`/proc/${pid}/maps`, 'utf8').trim().split('\n')) {
      const [begin, end] = line
        .split(' ')[0]
        .split('-')
        .map((part) => BigInt(`0x${part}`))
      if (line.includes('[v') || end > 1n << 47n) continue
      // Pieces overlap by a key.
      for (let at = begin; at < end; at += BigInt(PIECE - KEY.length)) {
        const piece = Buffer.alloc(Math.min(PIECE, Number(end - at)))
        try {
          looked += readSync(memory, piece, 0, piece.length, at)
        } catch {
          break
        }
        if (piece.includes(KEY)) return { found: line, looked }
      }
    }
    return { found: undefined, looked }
  } finally {
    closeSync(memory)
  }
}

/** A core dump of a process, searched and removed. */
function inCore(pid, folder) {
  const prefix = join(folder, 'core')
  const { status, error, stderr } = spawnSync('gcore', ['-o', prefix, String(pid)], { encoding: 'utf8' })
  if (error) return undefined
  assert.equal(status, 0, stderr)
  const path = `${prefix}.${pid}`
  const found = spawnSync('grep', ['-cFa', KEY, path]).status === 0
  assert.ok(statSync(path).size > 1 << 20, 'an empty core dump')
  rmSync(path)
  return found
}

const words = encodeURIComponent(KEY.slice(0, 12))
const found = ['text', 'stdout', 'stderr', 'events'].map((what) => `/file?what=${what}`)
const parts = [
  '',
  '/rows?from=0&count=100',
  '/row?index=0',
  `/search?words=${words}&from=0`,
  '/processes',
  ...found,
]

/** All that the page answers about a record. */
async function pageOf(record) {
  const require = createRequire(import.meta.url)
  const { RecordSource } = require(join(root, 'dist/cli/view/record_source'))
  const { serveView } = require(join(root, 'dist/cli/view/server'))
  const view = await serveView({ source: await RecordSource.open(record) })
  const text = async (path) => (await fetch(`${view.url}${path}`)).text()
  const all = [await text(''), await text('api/runs')]
  const runs = JSON.parse(all.at(-1)).runs ?? []
  assert.ok(runs.length > 0, `no run: ${all.at(-1).slice(0, 200)}`)
  for (const { id } of runs) {
    for (const part of parts) all.push(await text(`api/runs/${encodeURIComponent(id)}${part}`))
  }
  await view.close()
  assert.ok(
    all.some((answer) => answer.includes('seen: Bearer')),
    'the page does not show the output',
  )
  return all.join('\n')
}

export async function run() {
  const folder = mkdtempSync(join(tmpdir(), 'egress-search-'))
  const rows = [['where', 'the key is there']]
  let failures = 0
  const tell = (where, found, expected = false) => {
    rows.push([where, found === undefined ? 'not tried' : found ? 'yes' : 'no'])
    if (found !== undefined && found !== expected) failures++
    console.log(
      `${found === undefined || found === expected ? 'ok    ' : 'FAILED'} ${rows.at(-1).join(': ')}`,
    )
  }
  let seen = 0
  const server = createServer(identity(), ({ headers }, response) => {
    if (headers.authorization === `Bearer ${KEY}`) seen++
    // A server that repeats the key.
    response.setHeader('x-seen', headers.authorization ?? '').end(`seen: ${headers.authorization}`)
  })
  const port = await listening(server)
  const mark = randomUUID()
  const record = join(folder, 'record')
  const line = `echo "$TOKEN $ALIAS"; curl -sSv -H "Authorization: Bearer $TOKEN" https://${name}:${port}/ 2>&1; node -e 'console.log(process.env.TOKEN); setInterval(() => {}, 1000)' & sleep 1000 & wait`
  const options = {
    cwd: folder,
    env: { TOKEN: KEY, ALIAS: `key=${KEY}`, MARK: mark },
    record,
    sandbox: {
      write: ['.'],
      network: { hosts: listed(port), secrets: { TOKEN: { value: KEY, hosts: [`${name}:${port}`] } } },
    },
  }
  const body = `
const { run } = require(${JSON.stringify(root)})
const options = JSON.parse(process.env.OPTIONS)
const controller = new AbortController()
process.on('SIGUSR2', () => controller.abort())
run('sh', ['-c', process.env.LINE, options.env.TOKEN], { ...options, signal: controller.signal }).catch((error) => console.log(JSON.stringify(error.result ?? error)))
setInterval(() => {}, 1000)`
  const env = { ...process.env, OPTIONS: JSON.stringify(options), LINE: line, SHEEPDOG_LOG: 'trace' }
  const host = spawn(process.execPath, ['-e', body], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let [told, log] = ['', '']
  host.stdout.setEncoding('utf8').on('data', (text) => (told += text))
  host.stderr.setEncoding('utf8').on('data', (text) => (log += text))
  try {
    const end = Date.now() + 60_000
    while ((seen < 1 || processesWith(`MARK=${mark}`).length < 4) && Date.now() < end)
      await new Promise((resolve) => setTimeout(resolve, 50))
    assert.equal(seen, 1, `the key did not arrive: ${log.slice(-2000)}`)
    // The host holds the mark in OPTIONS too.
    const tree = processesWith(`MARK=${mark}`).filter((pid) => pid !== host.pid)
    assert.ok(tree.length >= 3, `${tree.length} processes`)
    const of = (file) => tree.some((pid) => readFileSync(`/proc/${pid}/${file}`).includes(KEY))
    tell(`/proc/PID/environ of ${tree.length} processes`, of('environ'))
    tell(`/proc/PID/cmdline of ${tree.length} processes`, of('cmdline'))
    const memory = tree.map((pid) => inMemory(pid))
    const megabytes = Math.round(memory.reduce((sum, { looked }) => sum + looked, 0) / (1 << 20))
    console.log(`${megabytes} MB of memory`)
    assert.ok(megabytes > 5)
    tell(
      'memory of these processes',
      memory.some(({ found }) => found),
    )
    const child = tree.find((pid) => readFileSync(`/proc/${pid}/comm`, 'utf8').startsWith('node'))
    tell('a core dump of the program', inCore(child, folder))
    tell('memory of the host process (control)', Boolean(inMemory(host.pid).found), true)
    tell('a core dump of the host process (control)', inCore(host.pid, folder), true)
    host.kill('SIGUSR2')
    while (!told.includes('\n')) await new Promise((resolve) => setTimeout(resolve, 50))
    assert.match(told, /seen: Bearer [0-9a-f]{20}/)
    tell('the result, with its output and its error', told.includes(KEY))
    tell("the host's log, at its finest", log.includes(KEY))
    assert.ok(log.length > 1000)
    assert.ok(filesIn(record).length > 1)
    tell('the record', filesWith(record, KEY).length > 0)
    tell('files of the working directory', filesWith(folder, KEY).length > 0)
    tell('answers of the page of runs', (await pageOf(record)).includes(KEY))
  } finally {
    host.kill('SIGKILL')
    server.close()
    server.closeAllConnections()
    rmSync(folder, { recursive: true, force: true })
  }
  return { rows, failures, isWhole: true }
}
