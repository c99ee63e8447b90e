// The host process killed or stopped while a tree connects, and a hundred runs at once with a key each.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { createServer } from 'node:https'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { processesWith } from '../../fixtures/agent-cases.mjs'
import { root } from '../../scripts/step.mjs'
import { FAILED, runCase, until, wait } from '../cases.mjs'
import { identity, listed, listening, name } from './outside.mjs'

const { run: start } = createRequire(import.meta.url)('../../index.js')
const REPETITIONS = 10
const AT_ONCE = 100
const CASE_MS = 300_000
const STOPPED_MS = 1500

/** A server that remembers when a client connected and when a request came. */
async function watched() {
  const seen = { connections: 0, requests: 0, keys: [] }
  const server = createServer(identity(), ({ headers }, response) => {
    seen.requests++
    if (headers.authorization) seen.keys.push(headers.authorization)
    response.end('hello')
  })
  server.on('connection', () => seen.connections++)
  server.on('tlsClientError', () => {})
  return { seen, port: await listening(server), close: () => (server.close(), server.closeAllConnections()) }
}

/** A host whose program connects in four loops, two of them daemons in sessions of their own that ignore signals. */
async function host(port) {
  const mark = randomUUID()
  const loop = `while :; do curl -sS -m 5 -o /dev/null -H "Authorization: Bearer $TOKEN" https://${name}:${port}/ 2>/dev/null; sleep 0.02; done`
  const daemon = `setsid sh -c 'trap "" TERM HUP INT; ${loop}' &`
  const text = `${daemon}\n${daemon}\n(${loop}) &\n${loop}`
  const network = {
    hosts: listed(port),
    secrets: { TOKEN: { value: `tok_REAL${'0'.repeat(24)}`, hosts: [`${name}:${port}`] } },
  }
  const options = { env: { MARK: mark }, sandbox: { network } }
  const body = `require(${JSON.stringify(root)}).run('sh', ['-c', ${JSON.stringify(text)}], ${JSON.stringify(options)})`
  const child = spawn(process.execPath, ['-e', body], { stdio: ['ignore', 'ignore', 'inherit'] })
  return { child, mark }
}

async function killed(signal) {
  const { seen, port, close } = await watched()
  const { child, mark } = await host(port)
  try {
    await until(() => seen.requests > 20, 'requests of the program')
    assert.ok(processesWith(mark).length > 3)
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill(signal)
    await ended
    // Connections that the host had made before its end arrive here still.
    await wait(50)
    const { connections } = seen
    await until(() => processesWith(mark).length === 0, 'the end of the tree')
    await wait(200)
    assert.equal(seen.connections, connections, 'a connection was made after the end of the host')
  } finally {
    child.kill('SIGKILL')
    close()
  }
}

/** While the host is stopped nobody decides, so nothing connects; afterwards it goes on. */
async function stopped() {
  const { seen, port, close } = await watched()
  const { child, mark } = await host(port)
  try {
    await until(() => seen.requests > 20, 'requests of the program')
    child.kill('SIGSTOP')
    await wait(200)
    const { requests } = seen
    await wait(STOPPED_MS)
    assert.equal(seen.requests, requests, 'a request came while the host was stopped')
    assert.ok(processesWith(mark).length > 3, 'the tree has ended')
    child.kill('SIGCONT')
    await until(() => seen.requests > requests + 20, 'requests after the host went on')
    child.kill('SIGKILL')
    await until(() => processesWith(mark).length === 0, 'the end of the tree')
  } finally {
    child.kill('SIGKILL')
    close()
  }
}

const held = () => readdirSync('/proc/self/fd').length
const authorities = () => readdirSync(tmpdir()).filter((entry) => entry.startsWith('sheepdog-')).length

/** Runs that each have a key of their own, all at once. */
async function together() {
  const { seen, port, close } = await watched()
  const [place, hosts] = [`${name}:${port}`, listed(port)]
  const one = (number) => {
    const value = `tok_${String(number).padStart(4, '0')}_REAL0123456789REAL`
    const sandbox = { network: { hosts, secrets: { TOKEN: { value, hosts: [place] } } } }
    const line = `curl -sS -m 120 -H "Authorization: Bearer $TOKEN" https://${place}/`
    return start('sh', ['-c', line], { sandbox, timeoutMs: 180_000 })
  }
  try {
    await one(9999)
    seen.keys.length = 0
    const [descriptors, folders] = [held(), authorities()]
    const results = await Promise.all(Array.from({ length: AT_ONCE }, (_, number) => one(number)))
    for (const { stdout, stderr } of results) assert.equal(stdout, 'hello', stderr)
    assert.equal(new Set(seen.keys).size, AT_ONCE, 'not each key has arrived')
    assert.equal(seen.keys.length, AT_ONCE)
    assert.ok(seen.keys.every((key) => key.includes('REAL')))
    await until(() => authorities() <= folders, 'the end of the folders of the authorities')
    // Idle threads and the pool of the system's resolver may hold a few.
    await until(() => held() <= descriptors + 4, `the descriptors: ${held()}, ${descriptors} before`)
  } finally {
    close()
  }
}

const cases = {
  [`the host killed by SIGKILL, ${REPETITIONS} times`]: async () => {
    for (let time = 0; time < REPETITIONS; time++) await killed('SIGKILL')
  },
  'the host killed by SIGTERM': () => killed('SIGTERM'),
  'the host killed by SIGSEGV': () => killed('SIGSEGV'),
  'the host stopped, and going on': stopped,
  [`${AT_ONCE} runs at once, a key each`]: together,
}

export async function run(words) {
  const rows = [['what', 'outcome']]
  for (const [title, test] of Object.entries(cases)) {
    if (words.length > 0 && !words.some((word) => title.includes(word))) continue
    const { error } = await runCase(title, CASE_MS, test)
    rows.push([title, error ? FAILED : 'as it should be'])
  }
  return { rows, isWhole: words.length === 0 }
}
