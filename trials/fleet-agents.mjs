// `npm run trial -- fleet-agents [NAME ...]`: the real agent CLIs over two workers that share nothing but the fleet: each has a home
// and a folder of its own. A second job continues the session of the first on the other worker; and a turn whose worker is
// killed while a tool runs goes on there. The CLIs are those of `npm run trial -- agents`, the model is the scripted one.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pointAt } from '../fixtures/agents.mjs'
import { startModelServer } from '../fixtures/model-server.mjs'
import { pinned } from './agents/install.mjs'
import { chosen, runCase, wait } from './cases.mjs'
import { loadFleet } from './fleet/jobs.mjs'
import { fail, root } from '../scripts/setup.mjs'

/** Those whose sessions travel. */
const travelling = ['claude-code', 'codex', 'gemini', 'copilot', 'qwen', 'pi']
const CASE_MS = 180_000

const words = process.argv.slice(2).filter((word) => !word.startsWith('--'))
const unknown = words.find((word) => !travelling.includes(word))
if (unknown) fail(`the sessions of ${unknown} don't travel; there are ${travelling.join(', ')}`)
const { Fleet } = loadFleet(process.argv.includes('--built'))

const base = mkdtempSync(join(tmpdir(), 'fleet-agents-'))
const dir = join(base, 'fleet')
const model = await startModelServer()
const fleet = await Fleet.connect({ dir, leaseMs: 3000 })

const workers = new Set()
/** None outlives this script: it would keep the fleet up, as a worker does. */
function killWorkers() {
  for (const worker of workers) worker.kill('SIGKILL')
}
process.once('exit', killWorkers)
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(1))

/** A worker process at home in a folder of its own. */
async function machine(provider, binary, url, name) {
  const place = { home: join(base, provider, name, 'home'), cwd: join(base, provider, name, 'work') }
  for (const folder of Object.values(place)) mkdirSync(folder, { recursive: true })
  const harness = {
    ...pointAt(provider, url, { ...place, cache: join(base, 'cache') }),
    binary,
    permission: 'auto',
    startTimeoutMs: 60_000,
  }
  const work = {
    queues: [`${provider}-${name}`, provider],
    name: `${provider}-${name}`,
    concurrency: 1,
    harness,
  }
  const args = [join(root, 'fixtures/fleet/worker.mjs'), JSON.stringify({ dir }), JSON.stringify(work)]
  const worker = spawn(process.execPath, args, { cwd: place.cwd, stdio: ['ignore', 'pipe', 'inherit'] })
  workers.add(worker)
  worker.once('exit', () => workers.delete(worker))
  await once(worker.stdout, 'data')
  return { worker, queue: `${provider}-${name}` }
}

async function ended(worker, signal) {
  const exit = once(worker, 'exit')
  worker.kill(signal)
  await exit
}

async function eventsOf(job) {
  const events = []
  for await (const event of job.events()) events.push(event)
  return events
}

const cases = {
  async 'second job elsewhere'({ provider, binary }) {
    const url = model.urlFor('text=Noted.;;text=You are Ada.')
    const one = await machine(provider, binary, url, 'one')
    const two = await machine(provider, binary, url, 'two')
    const first = await fleet.submit({ provider, prompt: 'My name is Ada.', queue: one.queue })
    const { sessionId } = await first.result
    const before = model.requests.length
    const second = await fleet.submit({
      provider,
      prompt: 'What is my name?',
      resume: sessionId,
      queue: two.queue,
    })
    const result = await second.result
    assert.equal(result.text, 'You are Ada.')
    assert.equal(result.sessionId, sessionId)
    assert.equal((await second.record()).worker, `${provider}-two`)
    const asked = model.requests.slice(before).map(({ body }) => JSON.stringify(body))
    assert.ok(
      asked.some((body) => body.includes('What is my name?') && body.includes('My name is Ada.')),
      'the history of the first machine was sent by the second',
    )
    await ended(one.worker, 'SIGTERM')
    await ended(two.worker, 'SIGTERM')
  },

  async 'killed in a tool'({ provider, binary }) {
    const url = model.urlFor('shell=echo begun; sleep 600;;text=It is finished.')
    const one = await machine(provider, binary, url, 'one')
    const job = await fleet.submit({ provider, prompt: 'Make the thing.', queue: provider, attempts: 3 })
    for await (const event of job.events()) if (event.type === 'tool_start') break
    // What the CLI wrote by then has to be stored; nothing tells from outside when it is.
    await wait(4000)
    const two = await machine(provider, binary, url, 'two')
    await ended(one.worker, 'SIGKILL')
    const result = await job.result
    assert.equal(result.text, 'It is finished.')
    const record = await job.record()
    assert.deepEqual([record.attempt, record.worker], [2, `${provider}-two`])
    const events = await eventsOf(job)
    const types = (attempt) => events.filter((event) => event.attempt === attempt).map(({ type }) => type)
    assert.ok(types(1).includes('tool_start'))
    assert.ok(types(2).includes('session_brought'), types(2).join())
    const sessions = events.filter(({ type }) => type === 'session').map((event) => event.sessionId)
    assert.equal(new Set(sessions).size, 1, 'one session over both attempts')
    await ended(two.worker, 'SIGTERM')
  },
}

let failures = 0
for (const provider of chosen(travelling, words)) {
  const { bin, program, version } = pinned(provider)
  const binary = join(bin, program)
  console.log(`\n${provider} ${version}`)
  for (const [title, test] of Object.entries(cases)) {
    rmSync(join(base, provider), { recursive: true, force: true })
    const { error } = await runCase(title, CASE_MS, () => test({ provider, binary }))
    killWorkers()
    if (error) failures++
  }
}
await fleet.close()
await model.close()
rmSync(base, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
process.exit(failures === 0 ? 0 : 1)
