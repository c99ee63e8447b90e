// The cost of the proxy beside no proxy, and beside @anthropic-ai/sandbox-runtime where it starts: one run, in which the ways take turns.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { peerSettings } from '../../fixtures/sandbox/peer-settings.mjs'
import { KEY, file, listed, name } from './outside.mjs'
import { findPeer, title as peerTitle } from './peer.mjs'

const { run: start } = createRequire(import.meta.url)('../../index.js')
const ROUNDS = 3
const REQUESTS = 30
const MEGABYTES = 100

/** The server in a process of its own, so that the host's processor time is the proxy's. */
async function server() {
  const body = `
const { readFileSync } = require('fs')
const big = Buffer.alloc(1 << 20, 'abcdefgh')
const server = require('https').createServer({ key: readFileSync(process.argv[1]), cert: readFileSync(process.argv[2]) }, (request, response) => {
  if (request.url !== '/big') return response.end('hello')
  let left = ${MEGABYTES}
  const more = () => { while (left-- > 0) if (!response.write(big)) return response.once('drain', more); response.end() }
  more()
}).listen(0, '127.0.0.1', () => console.log(server.address().port))`
  const args = ['-e', body, file('key.pem'), file('certificate.pem')]
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  const port = await new Promise((resolve) => child.stdout.once('data', (text) => resolve(Number(text))))
  return { port, close: () => child.kill() }
}

const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1]
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`

/** A command line, and how it is run by each way. */
function ways(port, folder) {
  const secrets = { TOKEN: { value: KEY, hosts: [`${name}:${port}`] } }
  const env = { CURL_CA_BUNDLE: file('trusted.pem') }
  const plain = (sandbox) => (line) =>
    start('sh', ['-c', line], { cwd: folder, ...(sandbox?.network.secrets ? {} : { env }), sandbox })
  const all = {
    'no proxy': plain(undefined),
    'hosts, not looked into': plain({ network: { hosts: listed(port) } }),
    'hosts and secrets, looked into': plain({ network: { hosts: listed(port), secrets } }),
  }
  const bin = findPeer()
  if (!bin) return all
  const peer = (title, network) => {
    const settings = join(folder, `${title}.json`)
    writeFileSync(settings, JSON.stringify(peerSettings({ write: [folder], network })))
    return (line) =>
      start(join(bin, 'srt'), ['--settings', settings, '-c', line], {
        cwd: folder,
        env: network.secrets ? { TOKEN: KEY } : env,
      })
  }
  const hosts = listed(port)
  return {
    ...all,
    [`${peerTitle}, not looked into`]: peer('hosts', { hosts }),
    [`${peerTitle}, looked into`]: peer('secrets', { hosts, secrets }),
  }
}

export async function run() {
  const { port, close } = await server()
  const folder = mkdtempSync(join(tmpdir(), 'egress-cost-'))
  const url = `https://${name}:${port}/`
  const urls = Array.from({ length: REQUESTS }, () => quoted(url)).join(' ')
  const sinks = Array.from({ length: REQUESTS }, () => '-o /dev/null').join(' ')
  const lines = {
    'a start': ['true', 1],
    'a request on a connection of its own': [
      `for i in $(seq ${REQUESTS}); do curl -sS -o /dev/null ${url} || exit 1; done`,
      REQUESTS,
    ],
    'a request on a kept connection': [`curl -sS ${sinks} ${urls}`, REQUESTS],
    'a megabyte': [`curl -sS -o /dev/null ${url}big`, MEGABYTES],
  }
  const all = ways(port, folder)
  const figures = {}
  const broken = new Set()
  const load = loadavg()[0]
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [title, [line, count]] of Object.entries(lines)) {
      for (const [way, go] of Object.entries(all)) {
        const [cpu, at] = [process.cpuUsage(), performance.now()]
        const { exitCode, stderr, usage } = await go(line)
        const { user, system } = process.cpuUsage(cpu)
        if (exitCode !== 0) {
          if (broken.has(way)) continue
          broken.add(way)
          console.log(`${way} does not do "${title}": ${stderr.trim().split('\n').at(-1)}`)
        }
        const program = usage.userMs + usage.systemMs
        // The first round fills caches.
        if (round === 0 || exitCode !== 0) continue
        const cell = ((figures[title] ??= {})[way] ??= { ms: [], cpu: [] })
        cell.ms.push((performance.now() - at) / count)
        cell.cpu.push(((user + system) / 1000 + program) / count)
      }
    }
  }
  close()
  rmSync(folder, { recursive: true })
  const cell = (one) =>
    one ? `${median(one.ms).toFixed(2)} ms, ${median(one.cpu).toFixed(2)} ms of processor` : 'does not work'
  const rows = [['', ...Object.keys(all)]]
  for (const title of Object.keys(lines))
    rows.push([title, ...Object.keys(all).map((way) => cell(figures[title]?.[way]))])
  rows.forEach((row) => console.log(row.join(' | ')))
  console.log(`load ${load.toFixed(1)} at the beginning, ${loadavg()[0].toFixed(1)} at the end`)
  const failures = [...broken].filter((way) => !way.startsWith('sandbox-runtime')).length
  return { rows, failures, isWhole: true }
}
