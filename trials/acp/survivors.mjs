// `npm run trial -- acp --survivors [AGENT ...]`: what each agent leaves alive when its client is killed by SIGKILL while a tool runs,
// without Sheepdog and with `sheepdog acp` between the two. The table goes to target/trials.
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'
import { openAt, speakers } from '../../fixtures/acp/real.mjs'
import { processesIn } from '../../fixtures/agent-cases.mjs'
import { workplace } from '../../fixtures/agents.mjs'
import { startModelServer } from '../../fixtures/model-server.mjs'
import { fail, root } from '../../scripts/step.mjs'
import { chosen, wait } from '../cases.mjs'
import { writeTable } from '../table.mjs'
import { cache, install, installNode } from './installation.mjs'
import { GRACE_MS, killAll } from './leftovers.mjs'

/** For an agent to start its tool. */
const TOOL_MS = 120_000

/** codex's own sandbox fails in a home below /tmp. `sheepdog acp` sets this mode for `--permission auto`. */
const modes = { codex: 'agent-full-access' }

const client = fileURLToPath(new URL('clients/plain.mjs', import.meta.url))

function wordsOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0').join(' ')
  } catch {
    return ''
  }
}

async function runAgent(agent, isBetween, folders, server) {
  const place = { ...workplace(`survivors-${agent}`), cache: join(cache, 'cache') }
  const url = server.urlFor([{ shell: 'tail -f /dev/null' }, { text: 'And on.' }])
  const { env, model } = openAt(agent, url, place, folders)
  // claude-code opens no session as root otherwise; `sheepdog acp` sets this itself.
  if (agent === 'claude-code' && process.getuid() === 0) env.IS_SANDBOX = '1'
  const between = [
    process.execPath,
    join(root, 'cli', 'sheepdog.js'),
    'acp',
    agent,
    '--permission',
    'auto',
    ...(model ? ['--model', model] : []),
  ]
  const words = isBetween ? between : speakers[agent].command
  const mode = isBetween ? [] : [modes[agent] ?? '']
  const child = spawn(process.execPath, [client, JSON.stringify(words), ...mode], {
    cwd: place.cwd,
    env: { ...env, LANG: 'C.UTF-8' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let said = ''
  child.stdout.on('data', (text) => (said += text))
  const hasTool = () => processesIn(place).some((pid) => wordsOf(pid).startsWith('tail -f'))
  const until = performance.now() + TOOL_MS
  while (!hasTool() && performance.now() < until && !/END|ERROR|EXIT/.test(said)) await wait(100)
  const isRunning = hasTool()
  const before = processesIn(place).length
  child.kill('SIGKILL')
  await wait(GRACE_MS)
  const left = processesIn(place)
  const names = left.map((pid) => wordsOf(pid).slice(0, 60))
  killAll(left)
  place.remove()
  return { isRunning, before, left: left.length, names, said }
}

export async function runSurvivors(words) {
  const agents = chosen(Object.keys(speakers), words)
  const newNode = installNode()
  const server = await startModelServer({ script: 'text=hi' })
  const table = [
    ['agent', 'processes while the tool runs', 'left without Sheepdog', 'left with `sheepdog acp`'],
  ]
  let faults = 0
  for (const agent of agents) {
    const folders = [newNode, install(agent, speakers[agent].packages)]
    const cells = []
    let before = ''
    for (const isBetween of [false, true]) {
      const run = await runAgent(agent, isBetween, folders, server)
      if (!run.isRunning || (isBetween && run.left > 0)) faults++
      if (!isBetween) before = String(run.before)
      cells.push(run.isRunning ? String(run.left) : '**no tool ran**')
      const rest = run.isRunning ? run.names.join('; ') : run.said.slice(0, 300)
      console.log(
        `${agent} | ${isBetween ? 'with' : 'without'} | ${run.before} before, ${run.left} left | ${rest}`,
      )
    }
    table.push([agent, before, ...cells])
  }
  await server.close()
  if (agents.length === Object.keys(speakers).length) writeTable('npm run trial -- acp --survivors', table)
  if (faults > 0) fail(`${faults} runs had no tool to be killed in, or left a process behind Sheepdog`)
}
