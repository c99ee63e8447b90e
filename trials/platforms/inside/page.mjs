// Does what docs/getting-started.md says, in the folder in which npm has installed the package: its programs and commands are run as they
// stand there, by the package itself. The agent is the scripted one of the package's examples, under the name of codex. Not the step with
// zod, which needs a network; on Windows not the step whose program is a shell of Unix. Each step prints a line.
import { equal } from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { npmShim } from './shim.mjs'

const app = process.cwd()
const own = join(app, 'node_modules/sheepdog')
const page = readFileSync(join(own, 'docs/getting-started.md'), 'utf8')
const answer = 'There is one file: flock.txt.'
const isWindows = process.platform === 'win32'
const { run, spawn } = await import(pathToFileURL(join(own, 'index.mjs')))

const steps = {
  async 'Run a program'(section) {
    const file = join(app, 'package.json')
    const content = JSON.parse(readFileSync(file, 'utf8'))
    writeFileSync(file, JSON.stringify({ ...content, scripts: { test: 'echo tested' } }))
    // Wine's shell prints the label that npm's batch file begins with.
    const output = (await program(section)).replaceAll('\r', '').replace(/\n\w:\\.*>::.*\n/, '')
    equal(output.replace(/\d+ ms/, 'N ms'), 'passed after N ms\ntested\n\n')
  },
  ...(!isWindows && {
    async 'See what happens when a program hangs'(section) {
      equal(await program(section), `${block(section, 'text')}\n`)
    },
  }),
  async 'Check that an agent is there'(section) {
    const output = await sh(block(section, 'sh'))
    if (!/codex/.test(output)) throw new Error(output)
  },
  async 'Ask the agent'(section) {
    equal(await program(section), `${answer}\n`)
  },
  async 'Watch it work'(section) {
    const [agent, view] = block(section, 'sh').split('\n')
    equal((await sh(agent)).includes(answer), true)
    const server = spawn(...words(view))
    try {
      for await (const { text } of server.lines()) {
        const [address] = text.match(/http:\S+/) ?? []
        if (!address) continue
        equal((await fetch(address)).status, 200)
        return
      }
    } finally {
      await server.kill('SIGKILL')
    }
    throw new Error('it printed no address')
  },
  async 'Where to go next'(section) {
    const [, command] = /`(node [^`]+)`/.exec(section)
    equal((await sh(command)).includes(answer), true)
  },
}

const programs = join(app, 'bin')
mkdirSync(programs)
const scripted = pathToFileURL(join(own, 'examples/agent/scripted.mjs')).href
const standIn = `if (process.argv[2] === '--version') console.log('codex-cli 0.145.0')\nelse await import('${scripted}')\n`
writeFileSync(join(programs, 'codex.mjs'), standIn)
if (isWindows) writeFileSync(join(programs, 'codex.cmd'), npmShim('codex.mjs'))
else
  writeFileSync(join(programs, 'codex'), `#!/bin/sh\nexec node ${programs}/codex.mjs "$@"\n`, { mode: 0o755 })
const installed = join(app, 'node_modules/.bin')
process.env.PATH = [programs, installed, dirname(process.execPath), process.env.PATH].join(delimiter)
for (const [title, attempt] of Object.entries(steps)) {
  const started = performance.now()
  const section = page.split(/^## (?:\d+\. )?/m).find((text) => text.startsWith(`${title}\n`)) ?? ''
  const { end, note } = await attempt(section).then(
    () => ({ end: 'passed', note: '' }),
    (error) => ({ end: 'FAILED', note: `${error.stack}` }),
  )
  const ms = Math.round(performance.now() - started)
  const name = `page: ${title}`
  console.log(`CASE ${JSON.stringify({ area: 'page', name, landlock: 0, ms, end, note })}`)
}

/** The first block of a language in a section. */
function block(section, language) {
  const found = new RegExp(`^\`\`\`${language}\n(.*?)\n\`\`\``, 'ms').exec(section)
  if (!found) throw new Error(`the page has no such step, with a block of ${language}`)
  return found[1]
}

/** The output of a section's program. */
function program(section) {
  writeFileSync(join(app, 'first.mjs'), block(section, 'js'))
  return sh('node first.mjs')
}

/** The stdout of a command; an error when the command fails. */
async function sh(command) {
  const { stdout, stderr, exitCode } = await run(...words(command))
  if (exitCode !== 0) throw new Error(`exit status ${exitCode}: ${stdout}${stderr}`)
  return stdout
}

/**
 * A command as a program and its arguments. Windows has no such shell, and that of wine does not get through the batch files by which npm
 * puts programs on the search path: there, the program is the one that npx would start.
 */
function words(command) {
  if (!isWindows) return ['sh', ['-c', command]]
  const parts = command.replace(/^npx | +#.*/g, '').matchAll(/"([^"]*)"|\S+/g)
  const [program, ...words] = [...parts].map(([whole, quoted]) => quoted ?? whole)
  return [program, words]
}
