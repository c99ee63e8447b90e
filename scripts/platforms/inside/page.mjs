// Does what docs/getting-started.md says, in the folder in which npm has installed the package: its programs and commands are run as they
// stand there. The agent is the scripted one of the package's examples, under the name of codex. Not the step with zod, which needs a
// network. Each step prints a line.
import { equal } from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const app = process.cwd()
const own = join(app, 'node_modules/sheepdog')
const page = readFileSync(join(own, 'docs/getting-started.md'), 'utf8')
const answer = 'There is one file: flock.txt.'

const steps = {
  async 'Run a program'(section) {
    const file = join(app, 'package.json')
    const content = JSON.parse(readFileSync(file, 'utf8'))
    writeFileSync(file, JSON.stringify({ ...content, scripts: { test: 'echo tested' } }))
    equal((await program(section)).replace(/\d+ ms/, 'N ms'), 'passed after N ms\ntested\n\n')
  },
  async 'See what happens when a program hangs'(section) {
    equal(await program(section), `${block(section, 'text')}\n`)
  },
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
    const server = spawn('sh', ['-c', view], { stdio: ['ignore', 'pipe', 'inherit'], detached: true })
    try {
      const address = await new Promise((resolve, reject) => {
        let output = ''
        server.stdout.setEncoding('utf8').on('data', (text) => {
          output += text
          const [found] = output.match(/http:\S+/) ?? []
          if (found) resolve(found)
        })
        server.once('close', () => reject(new Error(`no address: ${output}`)))
      })
      equal((await fetch(address)).status, 200)
    } finally {
      // npx has started a program of its own.
      if (server.pid) process.kill(-server.pid, 'SIGKILL')
    }
  },
  async 'Where to go next'(section) {
    const [, command] = /`(node [^`]+)`/.exec(section)
    equal((await sh(command)).includes(answer), true)
  },
}

const programs = join(app, 'bin')
mkdirSync(programs)
const standIn = `#!/bin/sh\n[ "$1" = --version ] && exec echo codex-cli 0.145.0\nexec node ${own}/examples/agent/scripted.mjs "$@"\n`
writeFileSync(join(programs, 'codex'), standIn, { mode: 0o755 })
process.env.PATH = `${programs}${delimiter}${process.env.PATH}`
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
function sh(command) {
  return new Promise((resolve, reject) => {
    const child = spawn('sh', ['-c', command], { stdio: ['ignore', 'pipe', 'pipe'] })
    let [stdout, stderr] = ['', '']
    child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text))
    child.stderr.setEncoding('utf8').on('data', (text) => (stderr += text))
    child.once('error', reject)
    child.once('close', (status) =>
      status === 0 ? resolve(stdout) : reject(new Error(`exit status ${status}: ${stdout}${stderr}`)),
    )
  })
}
