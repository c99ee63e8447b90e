// `npm run trial -- acp --mcp [CLIENT ...] [--minutes N]`: claude-code, which has the protocol's own client in it, and codex as clients
// of `sheepdog mcp`. The model is scripted: it starts an agent, asks for its state until the agent has ended, takes the result, starts
// another one, cancels it, and lists both. The agents that are started are played (fixtures/bin/agent.mjs); the first takes three
// seconds, or so many minutes. The table goes to target/trials.
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { processesIn } from '../../fixtures/agent-cases.mjs'
import { agents, pointAt, workplace } from '../../fixtures/agents.mjs'
import { startModelServer } from '../../fixtures/model-server.mjs'
import { pinned } from '../agents/install.mjs'
import { fail, root } from '../../scripts/step.mjs'
import { chosen, wait, writeTable } from '../cases.mjs'

const clients = ['claude-code', 'codex']
const prompts = ['Which tests fail?', 'Wait for ever.']
const command = join(root, 'cli', 'sheepdog.js')

/** The call of a tool of the server "sheepdog", as each client's model names it. */
const toolOf = (client, name) =>
  client === 'codex' ? { name, namespace: 'mcp__sheepdog' } : { name: `mcp__sheepdog__${name}` }

/** Texts of the tools' results in a request of the client, oldest first. */
function results(body) {
  const found = []
  const search = (value) => {
    if (Array.isArray(value)) return value.forEach(search)
    if (value === null || typeof value !== 'object') return
    if (value.type === 'tool_result') found.push(JSON.stringify(value.content))
    else if (value.type === 'function_call_output') found.push(JSON.stringify(value.output))
    else Object.values(value).forEach(search)
  }
  search(body.messages ?? body.input)
  return found.map((text) => text.replaceAll('\\', ''))
}

const idOf = (text) => /"id":\s*"([^"]+)"/.exec(text)?.[1]

/** The model: each step is decided by the results so far. */
function scriptOf(client, prompts) {
  const call = (name, input) => [{ ...toolOf(client, name), input }]
  const start = (prompt) => call('start_agent', { provider: 'codex', prompt })
  const next = (body) => {
    const told = results(body)
    const last = told.at(-1) ?? ''
    const ids = [...new Set(told.map(idOf).filter(Boolean))]
    if (told.length === 0) return start(prompts[0])
    const wasCancelled = last.includes('"state":"cancelled"')
    if (ids.length === 1) {
      if (last.includes('"state":"running"')) return call('agent_status', { id: ids[0], waitMs: 45_000 })
      if (last.includes('"events"')) return call('agent_result', { id: ids[0] })
      return start(prompts[1])
    }
    if (last.includes('"maxAgents"')) return []
    return wasCancelled ? call('list_agents', {}) : call('cancel_agent', { id: ids[1] })
  }
  return [{ calls: next, text: 'Next.', times: 100 }]
}

/** A `codex` whose first turn takes so long, and whose second one never ends. */
function playedCodex(place, waitMs) {
  const bin = join(place.home, 'bin')
  mkdirSync(bin)
  const [begin, end] = [
    { line: { type: 'thread.started', thread_id: 't-1' } },
    { line: { type: 'turn.completed', usage: { input_tokens: 10, output_tokens: 3 } } },
  ]
  const item = { id: 'm', type: 'agent_message', text: 'Two tests fail.' }
  const plans = [
    [begin, { wait: waitMs }, { line: { type: 'item.completed', item } }, end],
    [begin, { spawn: true }, { hang: true }],
  ]
  const plan = JSON.stringify([{ count: join(place.home, 'starts'), plans }])
  const player = join(root, 'fixtures/bin/agent.mjs')
  writeFileSync(join(bin, 'codex'), `#!/bin/sh\nexec '${process.execPath}' '${player}' '${plan}' "$@"\n`)
  chmodSync(join(bin, 'codex'), 0o755)
  return bin
}

/** How a client starts the server. */
function serverAt(place, waitMs) {
  const options = ['--provider', 'codex', '--permission', 'auto', '--idle', '1h']
  const words = [process.execPath, command, 'mcp', ...options].map((word) => `'${word}'`).join(' ')
  return {
    name: 'sheepdog',
    command: '/bin/sh',
    // codex puts its own programs before those of PATH, so that it would start itself: the played one goes before them.
    args: ['-c', `PATH='${playedCodex(place, waitMs)}':"$PATH" exec ${words}`],
    env: { PATH: process.env.PATH, HOME: place.home },
  }
}

/** Calls of a client whose model decides them. */
async function callsOfModel(client, place, tools) {
  const { Harness } = createRequire(import.meta.url)(root)
  const script = scriptOf(client, prompts)
  const server = await startModelServer({ scripts: { it: script } })
  const { bin } = pinned(client)
  const options = pointAt(client, server.urlFor('it'), place)
  options.env.PATH = `${bin}:${process.env.PATH}`
  const calls = []
  const turn = new Harness({ ...options, permission: 'auto' }).start('Let codex look.', {
    mcpServers: [tools],
  })
  for await (const event of turn) {
    if (event.type !== 'tool_end') continue
    calls.push({ name: event.name, output: String(event.output ?? '').replaceAll('\\', '') })
  }
  const ended = await turn.result.then(
    () => 'success',
    (error) => `${error.code} ${error.message}`,
  )
  await server.close()
  return { calls, ended }
}

async function runClient(client, waitMs) {
  const place = workplace(`mcp-${client}`)
  const tools = serverAt(place, waitMs)
  const { calls, ended } = await callsOfModel(client, place, tools)
  await wait(1000)
  const left = processesIn(place).length
  place.remove()
  const outputs = (word) => calls.filter(({ name }) => name?.includes(word)).map(({ output }) => output)
  const has = (word, ...texts) => outputs(word).some((output) => texts.every((text) => output.includes(text)))
  const says = (isSo) => (isSo ? 'ok' : '**wrong**')
  return {
    start_agent: says(outputs('start_agent').length === 2 && has('start_agent', '"state":"running"')),
    'agent_status, until done': `${says(has('agent_status', '"state":"done"'))}, ${outputs('agent_status').length} calls`,
    agent_result: says(has('agent_result', 'Two tests fail.')),
    cancel_agent: says(has('cancel_agent', '"state":"cancelled"')),
    list_agents: says(has('list_agents', '"state":"done"', '"state":"cancelled"')),
    "the client's turn": says(ended === 'success') + (ended === 'success' ? '' : ` ${ended}`),
    'left alive': String(left),
    calls,
  }
}

export async function runMcp(words) {
  const minutes = Number(words[words.indexOf('--minutes') + 1]) || 0
  const names = chosen(clients, words)
  const found = []
  for (const name of names) {
    const { calls, ...row } = await runClient(name, minutes > 0 ? minutes * 60_000 : 3000)
    console.log(name, row)
    const isGood = !Object.values(row).some((cell) => cell.includes('wrong')) && row['left alive'] === '0'
    if (!isGood) console.log(calls)
    found.push({ row, isGood })
  }
  if (names.length === clients.length && minutes === 0) {
    const versions = names.map((name) => `${name} ${agents[name].version}`)
    const rows = Object.keys(found[0].row).map((title) => [title, ...found.map(({ row }) => row[title])])
    writeTable('npm run trial -- acp --mcp', [['tool', ...versions], ...rows])
  }
  const faults = found.filter(({ isGood }) => !isGood).length
  if (faults > 0) fail(`${faults} clients of sheepdog mcp came out otherwise`)
}
