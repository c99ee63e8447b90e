// `npm run test:agents [-- NAME|CASE|levels ...]`: one table of cases for all the real agent CLIs, against the carried model server. The
// CLIs are installed, in exact versions, into a cache folder (SHEEPDOG_AGENTS, else ~/.cache/sheepdog-agents: 2 GB); the table
// goes to docs/agents.md when all ran.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { agents } from '../fixtures/agents.mjs'
import { bench, cases as turnCases } from '../fixtures/agent-cases.mjs'
import { levelCases } from '../fixtures/level-cases.mjs'
import { startModelServer } from '../fixtures/model-server.mjs'
import { fail, prepare } from './setup.mjs'
import { writeTable } from './table.mjs'

const CASE_MS = 180_000
const cases = { ...turnCases, ...levelCases }
/** The tables of docs/agents.md; each is written when all its cases ran with all agents. */
const tables = { 'npm run test:agents': turnCases, 'npm run test:agents -- levels': levelCases }

const folder = process.env.SHEEPDOG_AGENTS || join(homedir(), '.cache', 'sheepdog-agents')
const wanted = process.argv.slice(2).filter((word) => word in agents)
const only = process.argv
  .slice(2)
  .flatMap((word) => (word === 'levels' ? Object.keys(levelCases) : word))
  .filter((word) => word in cases)
// Each needs a node of its own age; one that this node is too old for is left out, and so is the table then.
const node = Number(process.versions.node.split('.')[0])
const names = (wanted.length > 0 ? wanted : Object.keys(agents)).filter((name) => {
  const isOldEnough = node >= (agents[name].node ?? 0)
  if (!isOldEnough) console.log(`${name} needs node ${agents[name].node}: left out`)
  return isOldEnough
})

function install(name) {
  const { package: packageName, version, program } = agents[name]
  const place = join(folder, `${name}-${version}`)
  const binary = join(place, 'node_modules', '.bin', program)
  if (existsSync(binary)) return binary
  console.log(`> installing ${packageName}@${version}`)
  mkdirSync(place, { recursive: true })
  writeFileSync(join(place, 'package.json'), '{"private":true}\n')
  const installed = spawnSync(
    'npm',
    ['install', '--no-audit', '--no-fund', '--loglevel=error', `${packageName}@${version}`],
    {
      cwd: place,
      stdio: 'inherit',
    },
  )
  if (installed.status !== 0 || !existsSync(binary)) fail(`${packageName}@${version} could not be installed`)
  return binary
}

async function runCase(test, context) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${CASE_MS / 1000} s`)), CASE_MS)
  })
  try {
    return { word: await Promise.race([test(context), late]) }
  } catch (error) {
    return { word: '**failed**', error }
  } finally {
    clearTimeout(timer)
  }
}

/** The results of these cases, each row a case. */
function rowsOf(results, tests) {
  const titles = names.map((name) => `${name} ${agents[name].version}`)
  const row = (test) => [test, ...names.map((name) => results[name][test])]
  return [['case', ...titles], ...Object.keys(tests).map(row)]
}

if (!process.argv.includes('--built')) prepare({ addon: 'any' })
const { Harness } = createRequire(import.meta.url)('../index.js')
const server = await startModelServer()
const results = {}
let failures = 0
for (const name of names) {
  const binary = install(name)
  results[name] = {}
  console.log(`\n${name} ${agents[name].version}`)
  for (const [title, test] of Object.entries(cases)) {
    if (only.length > 0 && !only.includes(title)) continue
    const context = bench({
      provider: name,
      server,
      binary,
      cache: join(folder, 'cache'),
      make: (options) => new Harness(options),
    })
    const started = performance.now()
    const { word, error } = await runCase(test, context)
    context.close()
    results[name][title] = word
    if (error) failures++
    const detail = error ? `: ${error.code ? `${error.code} ` : ''}${error.message}` : ''
    console.log(
      `  ${error ? 'FAILED' : 'ok    '} ${title} (${((performance.now() - started) / 1000).toFixed(1)} s) ${word}${detail}`,
    )
  }
}
for (const [name, tests] of Object.entries(tables)) {
  const ran = Object.values(results).every((words) => Object.keys(tests).every((test) => test in words))
  if (ran && names.length === Object.keys(agents).length)
    writeTable('agents.md', name, rowsOf(results, tests))
}
process.exit(failures === 0 ? 0 : 1)
