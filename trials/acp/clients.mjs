// `npm run trial -- acp --clients [CLIENT|AGENT ...]`: clients of the Agent Client Protocol, unmodified, with real agents behind
// `sheepdog acp`: acpx, which is built on the TypeScript SDK, and the example client of the Python SDK. Right is a client that prints
// the scripted model's answer, and after which nothing is alive. The table goes to target/trials.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { openAt, speakers } from '../../fixtures/acp/real.mjs'
import { processesIn } from '../../fixtures/agent-cases.mjs'
import { workplace } from '../../fixtures/agents.mjs'
import { startModelServer } from '../../fixtures/model-server.mjs'
import { fail, root } from '../../scripts/step.mjs'
import { chosen, wait, writeTable } from '../cases.mjs'
import { folder as cache, installNode, installPackages, installPython } from '../agents/install.mjs'

const CASE_MS = 180_000
/** An agent may take so long to be gone after its client. */
const GRACE_MS = 5000
const ANSWER = 'It is done.'
const agents = ['claude-code', 'codex', 'gemini', 'opencode']
const acpx = 'acpx@0.19.1'
const python = 'agent-client-protocol==0.12.1'

/** The examples are in the source package alone. */
function pythonExample() {
  const bin = installPython('python-sdk', [python])
  const sources = join(bin, '..', 'sources')
  if (!existsSync(sources)) {
    mkdirSync(sources)
    const pip = ['-m', 'pip', 'download', '--quiet', '--no-deps', '--no-binary', ':all:']
    spawnSync(join(bin, 'python'), [...pip, python, '-d', sources], { stdio: 'inherit' })
    const [archive] = readdirSync(sources).filter((name) => name.endsWith('.tar.gz'))
    const unpacked = archive && spawnSync('tar', ['xzf', archive], { cwd: sources })
    if (unpacked?.status !== 0) fail(`${python} has no source package`)
  }
  const [folder] = readdirSync(sources).filter((name) => !name.endsWith('.tar.gz'))
  return [join(bin, 'python'), join(sources, folder, 'examples', 'client.py')]
}

/** Each client's command, with what it is told on stdin. */
const clients = {
  acpx: {
    title: acpx,
    command: (words, cwd) => [
      join(installPackages('acpx', [acpx]), 'acpx'),
      ...['--cwd', cwd, '--agent', words.join(' '), '--approve-all', 'exec', 'go'],
    ],
  },
  'python-sdk': {
    title: `${python.replace('==', ' ')} (PyPI), examples/client.py`,
    input: 'go\n',
    command: (words) => [...pythonExample(), ...words],
  },
}

async function runCase(client, agent, folders, server) {
  const place = { ...workplace(`client-${client}`), cache: join(cache, 'cache') }
  const { env, model } = openAt(agent, server.urlFor(`text=${ANSWER}`), place, folders)
  const words = [process.execPath, join(root, 'cli', 'sheepdog.js'), 'acp', agent, '--permission', 'auto']
  if (model) words.push('--model', model)
  const [program, ...args] = clients[client].command(words, place.cwd)
  const begun = performance.now()
  const child = spawn(program, args, { cwd: place.cwd, env: { ...process.env, ...env } })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (said += text))
  // The example of Python ends at the end of its input, which cancels nothing: its prompt is waited for.
  child.stdin.write(clients[client].input ?? '')
  const onSaid = setInterval(() => said.includes(ANSWER) && child.stdin.end(), 100)
  const timer = setTimeout(() => child.kill('SIGKILL'), CASE_MS)
  await new Promise((resolve) => child.once('close', resolve))
  clearInterval(onSaid)
  clearTimeout(timer)
  const seconds = ((performance.now() - begun) / 1000).toFixed(1)
  const until = performance.now() + GRACE_MS
  while (processesIn(place).length > 0 && performance.now() < until) await wait(100)
  const left = processesIn(place)
  // One of them may have just ended.
  spawnSync('kill', ['-KILL', ...left.map(String)])
  place.remove()
  const isRight = said.includes(ANSWER) && left.length === 0
  return { isRight, said, cell: isRight ? `ok (${seconds} s)` : `**wrong**, ${left.length} left` }
}

export async function runClients(words) {
  const [names, behind] = [chosen(Object.keys(clients), words), chosen(agents, words)]
  const folders = [installNode(), ...behind.map((agent) => installPackages(agent, speakers[agent].packages))]
  const server = await startModelServer({ script: 'text=hi' })
  const table = [['client', ...behind]]
  let faults = 0
  for (const name of names) {
    const row = [clients[name].title]
    for (const agent of behind) {
      const { isRight, said, cell } = await runCase(name, agent, folders, server)
      if (!isRight) faults++
      console.log(`${name} | ${agent} | ${cell}${isRight ? '' : ` | ${said.slice(-1500)}`}`)
      row.push(cell)
    }
    table.push(row)
  }
  await server.close()
  if (names.length === Object.keys(clients).length && behind.length === agents.length)
    writeTable('npm run trial -- acp --clients', table)
  if (faults > 0) fail(`${faults} clients came out otherwise, or left a process`)
}
