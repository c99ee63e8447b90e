// `npm run trial -- acp --peers [AGENT ...]`: other clients of the protocol beside ours, on the same agents and the same cases. Each
// client is a process of its own, called as its documentation says, and killed when it does not end. What counts is whether it
// tells a failure as a failure, whether it does what it was told, and what it leaves alive. The table goes to target/trials.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'
import { openAt, speakers } from '../../fixtures/acp/real.mjs'
import { processesIn } from '../../fixtures/agent-cases.mjs'
import { workplace } from '../../fixtures/agents.mjs'
import { startModelServer } from '../../fixtures/model-server.mjs'
import { writeTable } from '../table.mjs'
import { cache, install, installNode } from './installation.mjs'
import { killAll, leftoversIn } from './leftovers.mjs'

const CASE_MS = 40_000
const LIMIT_MS = 3000

const packages = {
  acpx: ['acpx@0.19.1'],
  'acp-ai-provider': ['@mcpc-tech/acp-ai-provider@0.2.9', 'ai@6.0.326'],
}
/** All clients start the same programs. */
const compared = ['claude-code', 'codex', 'gemini', 'copilot']

/** Ours starts them itself, with these models. */
const models = { gemini: 'gemini-2.5-flash' }

const hanging = [{ shell: 'tail -f /dev/null' }, { text: 'And on.' }]
const failed = ({ ends }) => ends.length > 0 && ends.every(({ ok }) => !ok)
const made = ({ place }) => existsSync(join(place.cwd, 'made.txt'))

/** `isRight` is told what the client said of each prompt, and whether it had to be killed. */
const cases = {
  'two prompts': {
    script: 'text=The first.;;text=The second.',
    prompts: ['one', 'two'],
    // Codex puts a warning of its own before, as if it were an answer.
    isRight: ({ ends }) =>
      ends.length === 2 &&
      ['The first.', 'The second.'].every((words, index) => ends[index].text?.trim().endsWith(words)),
  },
  // Codex asks in one of its modes only, which they leave as it is: its own sandbox lets this through.
  allowed: {
    script: [{ shell: 'echo x > made.txt' }, { text: 'It is done.' }],
    allows: true,
    isRight: (run) => !failed(run) && made(run),
  },
  refused: {
    without: ['codex'],
    script: [{ shell: 'echo x > made.txt' }, { text: 'It is done.' }],
    allows: false,
    isRight: (run) => !run.isKilled && !made(run),
  },
  'cancel in a tool': { script: hanging, cancelAt: 'tool', isRight: (run) => !run.isKilled },
  'the model stalls': { script: 'stall', limitMs: LIMIT_MS, isRight: (run) => !run.isKilled && failed(run) },
  'status 401': { script: [{ status: 401, words: 'Incorrect API key provided.' }], isRight: failed },
  'status 500': { script: [{ status: 500, words: 'The server had an error.' }], isRight: failed },
  'cut stream': { script: 'cut', isRight: failed },
  'the agent is killed': { script: hanging, kills: 'agent', isRight: (run) => !run.isKilled && failed(run) },
  // Right is who leaves nothing alive.
  'the client is killed (SIGKILL)': {
    script: hanging,
    kills: 'client',
    leavesNothing: true,
    isRight: () => true,
  },
}

const own = (name) => fileURLToPath(new URL(`clients/${name}.mjs`, import.meta.url))

/** The command of each client for a case. */
const clients = {
  sheepdog: (call) => [[process.execPath, own('sheepdog'), JSON.stringify(call)]],
  acpx({ program, cwd, prompts, allows, limitMs }) {
    const common = ['acpx', '--cwd', cwd, '--agent', program.join(' '), '--format', 'json']
    common.push(allows === false ? '--deny-all' : '--approve-all')
    if (limitMs) common.push('--timeout', String(limitMs / 1000))
    if (prompts.length === 1) return [[...common, 'exec', ...prompts]]
    // Of several, in one session, it takes a command each.
    const words = prompts.map((prompt) => [...common, prompt])
    return [[...common, 'sessions', 'new'], ...words, [...common, 'sessions', 'close']]
  },
  'acp-ai-provider': (call) => [['node', own('acp-ai-provider'), JSON.stringify(call)]],
}

/** A line that a client printed, as `{ seen }` or as a prompt's end. */
function readLine(client, text) {
  let line
  try {
    line = JSON.parse(text)
  } catch {
    return {}
  }
  if (client !== 'acpx') return line
  const update = line.params?.update ?? {}
  if (update.sessionUpdate === 'tool_call') return { seen: 'tool' }
  if (update.sessionUpdate === 'agent_message_chunk')
    return { seen: 'text', said: update.content?.text ?? '' }
  return {}
}

async function runCase(client, agent, test, folders, server) {
  const place = { ...workplace(`peer-${agent}`), cache: join(cache, 'cache') }
  const { env } = openAt(agent, server.urlFor(test.script), place, folders)
  const { prompts = ['go'], allows, limitMs, cancelAt } = test
  const call = {
    provider: agent,
    model: models[agent],
    program: speakers[agent].command,
    cwd: place.cwd,
    prompts,
    allows,
    limitMs,
    cancelAt,
  }
  if (client !== 'sheepdog' && client in packages) call.modules = join(cache, `acp-${client}`)
  const run = { place, ends: [], isKilled: false }
  for (const command of clients[client](call)) {
    await runCommand(client, command, { env: { ...process.env, ...env }, test, place, run })
  }
  if (run.ends.length === 0) run.ends.push({ ok: false })
  const left = await leftoversIn(place)
  // Before what it made is removed.
  const right = test.isRight(run) && !(test.leavesNothing && left.length > 0)
  killAll(left)
  place.remove()
  return { right, left: left.length, ends: run.isKilled ? 'did not end' : run.ends }
}

function runCommand(client, [program, ...args], { env, test, place, run }) {
  const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'ignore'], cwd: place.cwd })
  let said = ''
  let isDone = false
  const onSeen = (what) => {
    if (isDone || what !== (test.kills ? 'tool' : test.cancelAt)) return
    isDone = true
    // It cancels by this; the others were told to by their own means.
    if (test.cancelAt && client === 'acpx') child.kill('SIGINT')
    if (test.kills === 'client') child.kill('SIGKILL')
    if (test.kills === 'agent') killAgent(place, child.pid)
  }
  createInterface({ input: child.stdout }).on('line', (text) => {
    const line = readLine(client, text)
    if (line.ok !== undefined) run.ends.push(line)
    if (line.said) said += line.said
    onSeen(line.seen)
  })
  const timer = setTimeout(() => {
    run.isKilled = true
    child.kill('SIGKILL')
  }, CASE_MS)
  return new Promise((resolve) => {
    child.once('error', (error) => {
      throw error
    })
    child.once('close', (status) => {
      clearTimeout(timer)
      const isPrompt = client === 'acpx' && !args.includes('sessions')
      if (isPrompt) run.ends.push(status === 0 ? { ok: true, text: said } : { ok: false })
      resolve()
    })
  })
}

/** The agent's own program: the first that is neither the client nor what belongs to the client. */
function killAgent(place, client) {
  const words = (pid) => readFileSync(`/proc/${pid}/cmdline`, 'latin1').replaceAll('\0', ' ')
  const isAgent = (pid) =>
    pid !== client && /(-acp\b|--acp\b)/.test(words(pid)) && !/acpx|clients/.test(words(pid))
  const found = processesIn(place)
    .sort((one, other) => one - other)
    .find(isAgent)
  if (found) process.kill(found, 'SIGKILL')
}

export async function runPeers(words) {
  const some = compared.filter((name) => words.includes(name))
  const agents = some.length > 0 ? some : compared
  const only = Object.keys(cases).filter((name) => words.includes(name))
  const folders = [installNode()]
  for (const [name, list] of Object.entries(packages)) folders.push(install(name, list))
  for (const agent of agents) folders.push(install(agent, speakers[agent].packages))
  const server = await startModelServer({ script: 'text=hi' })
  const table = [['case', 'sheepdog', ...Object.values(packages).map(([name]) => name)]]
  for (const [title, test] of Object.entries(cases)) {
    if (only.length > 0 && !only.includes(title)) continue
    const row = [title]
    const asked = agents.filter((agent) => !test.without?.includes(agent))
    for (const client of Object.keys(clients)) {
      const wrong = []
      let left = 0
      for (const agent of asked) {
        const ended = await runCase(client, agent, test, folders, server)
        if (!ended.right) wrong.push(agent)
        left += ended.left
        console.log(
          `${title} | ${client} | ${agent} | ${ended.right ? 'right' : 'WRONG'} | left ${ended.left}`,
        )
      }
      const count = `${asked.length - wrong.length} of ${asked.length}`
      const names = wrong.length > 0 ? ` (not ${wrong.join(', ')})` : ''
      row.push(`${count}${names}${left > 0 ? `, ${left} left alive` : ''}`)
    }
    table.push(row)
  }
  await server.close()
  for (const row of table) console.log(row.join(' | '))
  if (some.length === 0 && only.length === 0) writeTable('npm run trial -- acp --peers', table)
}
