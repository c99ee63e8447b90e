// `npm run test:acp -- --latency`: the time that `sheepdog acp` adds to a session's start, to a prompt, and to 100,000 pieces of text.
// The agent is scripted (fixtures/acp/agent.mjs). The rounds without and with Sheepdog alternate. The release build of the addon is
// measured; `--built` takes the one that is there.
import { spawn } from 'node:child_process'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fail, root } from '../step.mjs'
import { printTable } from '../table.mjs'

const agent = join(root, 'fixtures/acp/agent.mjs')
const ways = {
  without: [agent],
  with: [join(root, 'cli/sheepdog.js'), 'acp', '--permission', 'auto', '--', process.execPath, agent],
}
const PIECES = 100_000

/** A client that reads JSON only where it waits for an answer, so that its own time is small. */
class Client {
  pieces = 0
  #next = 0
  #waiting = new Map()
  #rest = ''

  constructor(words) {
    this.child = spawn(process.execPath, words, { stdio: ['pipe', 'pipe', 'ignore'] })
    this.child.stdout.setEncoding('utf8').on('data', (text) => this.#onText(text))
  }

  #onText(text) {
    const lines = (this.#rest + text).split('\n')
    this.#rest = lines.pop()
    for (const line of lines) {
      if (line.includes('agent_message_chunk')) this.pieces++
      else {
        const { id } = JSON.parse(line)
        this.#waiting.get(id)?.()
      }
    }
  }

  request(method, params) {
    const id = this.#next++
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`)
    return new Promise((resolve) => this.#waiting.set(id, resolve))
  }

  async open() {
    await this.request('initialize', { protocolVersion: 1 })
    await this.request('session/new', { cwd: tmpdir(), mcpServers: [] })
  }

  prompt(text) {
    return this.request('session/prompt', { sessionId: 'session-1', prompt: [{ type: 'text', text }] })
  }

  async close() {
    this.child.stdin.end()
    // The scripted agent does not end with its stdin.
    if (this.child.spawnargs.includes('acp')) await new Promise((resolve) => this.child.once('exit', resolve))
    else this.child.kill()
  }
}

async function timed(work) {
  const begun = performance.now()
  await work()
  return performance.now() - begun
}

/** Rounds of each way in turn: the times of each. */
async function rounds(count, work) {
  const times = { without: [], with: [] }
  for (let round = 0; round < count; round++)
    for (const way of Object.keys(ways)) times[way].push(await work(way))
  return times
}

function cells(times) {
  return Object.values(times).map((all) => {
    const sorted = all.toSorted((one, other) => one - other)
    const at = (share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]
    const show = (ms) => (ms < 10 ? ms.toFixed(2) : String(Math.round(ms)))
    return `${show(at(0.5))} ms (${show(at(0))} to ${show(at(0.95))})`
  })
}

export async function runLatency() {
  const before = loadavg()[0]
  const starts = await rounds(7, async (way) => {
    const client = new Client(ways[way])
    const ms = await timed(() => client.open())
    await client.close()
    return ms
  })
  const clients = Object.fromEntries(Object.entries(ways).map(([way, words]) => [way, new Client(words)]))
  for (const client of Object.values(clients)) await client.open()
  const prompts = await rounds(300, (way) => timed(() => clients[way].prompt('hello')))
  const floods = await rounds(9, async (way) => {
    clients[way].pieces = 0
    const ms = await timed(() => clients[way].prompt(`flood ${PIECES} 20`))
    if (clients[way].pieces !== PIECES) fail(`${way}: ${clients[way].pieces} pieces came`)
    return ms
  })
  for (const client of Object.values(clients)) await client.close()
  const table = [
    ['median (least to 95 %)', 'without Sheepdog', 'with `sheepdog acp`'],
    ['start: `initialize` and `session/new`, 7 rounds', ...cells(starts)],
    ['a prompt with a short answer, 300 rounds', ...cells(prompts)],
    ['a prompt with 100,000 pieces of 20 letters, 9 rounds', ...cells(floods)],
    ['load of the machine, before and after', before.toFixed(1), loadavg()[0].toFixed(1)],
  ]
  for (const row of table) console.log(row.join(' | '))
  printTable('npm run test:acp -- --latency', table)
}
