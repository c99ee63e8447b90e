// `npm run trial -- acp [NAME|CASE ...]`: sessions with all the real agents against the carried model server: one table of cases,
// verdict, time, and what was left alive; it goes to target/trials when all ran. `--others`: agents that the package does
// not know by name, by their command (fixtures/acp/others.mjs). `--mcp`: clients of `sheepdog mcp` (acp/mcp.mjs). `--clients`: clients
// of `sheepdog acp` (acp/clients.mjs). All are installed, in exact versions, into a cache folder (agents/install.mjs).
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { isExpected, realCases } from '../fixtures/acp/real-cases.mjs'
import { otherAt, others } from '../fixtures/acp/others.mjs'
import { openAt, speakers } from '../fixtures/acp/real.mjs'
import { processesIn } from '../fixtures/agent-cases.mjs'
import { workplace } from '../fixtures/agents.mjs'
import { startModelServer } from '../fixtures/model-server.mjs'
import { runClients } from './acp/clients.mjs'
import { folder as cache, installNode, installPackages, installPython } from './agents/install.mjs'
import { runMcp } from './acp/mcp.mjs'
import { chosen, within, writeTable } from './cases.mjs'
import { fail, prepare, root } from '../scripts/setup.mjs'

const CASE_MS = 180_000
const words = process.argv.slice(2)

async function runCase(provider, test, folders, server, sheepdog) {
  const place = { ...workplace(`acp-${provider}`), cache: join(cache, 'cache') }
  const script = typeof test.script === 'function' ? test.script(provider) : test.script
  const url = server.urlFor(script)
  const [called, questions] = [[], []]
  let tellAsked
  const asked = new Promise((resolve) => (tellAsked = resolve))
  const { provider: described, ...own } = (others[provider] ? otherAt : openAt)(provider, url, place, folders)
  const options = {
    ...own,
    idleTimeoutMs: 60_000,
    // How long an agent takes to obey is what is measured, on a machine that may be loaded.
    killGraceMs: 15_000,
    permission: test.asks ? 'ask' : 'auto',
    ...test.open,
  }
  if (test.asks) {
    options.onPermission = (question) => {
      questions.push(question)
      tellAsked()
      return test.answer ?? new Promise(() => {})
    }
  }
  if (test.takesTools) {
    const parameters = { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] }
    const handler = ({ word }) => {
      called.push(word)
      return `${word} is a number`
    }
    options.tools = [sheepdog.defineTool('lookup', { description: 'Looks a word up.', parameters, handler })]
  }
  const harness = new sheepdog.Harness({ provider: described ?? provider })
  const kill = () => {
    const pids = processesIn(place).sort((one, other) => one - other)
    const isAgent = (pid) => /acp/.test(readFileSync(`/proc/${pid}/cmdline`, 'latin1'))
    process.kill(pids.find(isAgent) ?? pids[0], 'SIGKILL')
  }
  const reopen = (resume) => harness.open({ ...options, resume })
  const begun = performance.now()
  let session
  let said = {}
  try {
    session = await harness.open(options)
    const openMs = Math.round(performance.now() - begun)
    const ran = test.run(session, { place, openMs, asked, called, questions, kill, reopen })
    said = await within(CASE_MS, ran)
  } catch (error) {
    said = { word: `${error.code ?? ''} ${error.message}` }
  }
  await session?.close()
  const left = processesIn(place).length
  place.remove()
  return { ...said, left, isGood: left === 0 && isExpected(test, provider, said.word) }
}

const cellOf = ({ word, ms, left, isGood }) => {
  const time = ms === undefined ? '' : ms < 10_000 ? ` (${ms} ms)` : ` (${Math.round(ms / 1000)} s)`
  const cell = `${word.replaceAll('|', '/')}${time}${left > 0 ? `, ${left} left` : ''}`
  return isGood ? cell : `**${cell}**`
}

const parts = { '--mcp': runMcp, '--clients': runClients }
const part = Object.keys(parts).find((name) => words.includes(name))
if (!words.includes('--built')) prepare({ addon: 'any' })
if (part) {
  await parts[part](words)
  process.exit(0)
}
const sheepdog = createRequire(import.meta.url)(root)
const isOthers = words.includes('--others')
const agents = isOthers ? others : speakers
const [names, titles] = [agents, realCases].map((table) => chosen(Object.keys(table), words))
const newNode = installNode()
const server = await startModelServer({ script: 'text=hi' })
const table = []
let faults = 0
for (const title of titles) table.push([title])
for (const provider of names) {
  const { packages, python, cannot } = agents[provider]
  const folders = [newNode, python ? installPython(provider, python) : installPackages(provider, packages)]
  for (const [index, title] of titles.entries()) {
    const test = realCases[title]
    const isBeyond = test.cannot?.includes(provider) || cannot?.includes(title)
    if (isBeyond || (provider === 'pi' && (test.asks || test.takesTools))) {
      table[index].push('can not')
      continue
    }
    const ended = await runCase(provider, test, folders, server, sheepdog)
    if (!ended.isGood) faults++
    const cell = cellOf(ended)
    table[index].push(cell)
    console.log(`${ended.isGood ? 'ok    ' : 'FAILED'} ${provider} | ${title} | ${cell}`)
  }
}
await server.close()
if (names.length === Object.keys(agents).length && titles.length === Object.keys(realCases).length) {
  const name = `npm run trial -- acp${isOthers ? ' --others' : ''}`
  writeTable(name, [['case', ...names], ...table])
}
if (faults > 0) fail(`${faults} cases came out otherwise, or left a process`)
