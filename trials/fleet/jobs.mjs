// Jobs that each may be submitted twice, and the judgement at the end: none lost, none done twice, every log whole.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { wait } from '../cases.mjs'
import { findServer } from '../../scripts/nats-server.mjs'
import { fail, prepare, root } from '../../scripts/setup.mjs'

/** Each job says so many lines, with pauses of up to so long: a job takes two seconds, so that a blow meets most of them. */
const [EVENTS, PAUSE_MS] = [12, 1000]
const KEYS = 20
/** Jobs whose events are read live. */
const FOLLOWED = 30

/** The library of fleets and a server for it; `isBuilt`: the package is up to date. */
export function loadFleet(isBuilt) {
  if (!isBuilt) prepare({ addon: 'any' })
  const { server, problem } = findServer()
  if (!server) fail(problem)
  process.env.SHEEPDOG_NATS_SERVER = server
  return { ...createRequire(import.meta.url)(join(root, 'entries/fleet.js')), server }
}

/** A worker process, once it works; `before`: a command that starts it, such as `ip netns exec NAME`. */
export function startWorker(options, work, before = []) {
  const [program, ...args] = [
    ...before,
    process.execPath,
    join(root, 'fixtures/fleet/worker.mjs'),
    JSON.stringify(options),
    JSON.stringify(work),
  ]
  const worker = spawn(program, args, { stdio: ['ignore', 'pipe', 'ignore'] })
  const ended = once(worker, 'exit')
  return { worker, ended, ready: Promise.race([once(worker.stdout, 'data'), ended]) }
}

/** Some at a time, in order. */
async function inParallel(count, atOnce, act) {
  let next = 0
  const lane = async () => {
    while (next < count) await act(next++)
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, count) }, lane))
}

/** Submits jobs, every third of them twice. Every second one has a key. The events of a few are followed from then on. */
export async function submitAll(fleet, jobs) {
  const data = { events: EVENTS, ms: PAUSE_MS }
  const ids = Array.from({ length: jobs }, (_, n) => `job-${n}`)
  const followers = new Map()
  const every = Math.ceil(jobs / FOLLOWED)
  await inParallel(jobs, 8, async (n) => {
    // An attempt is lost with its worker now and then: enough of them, so that none is dead by chance.
    const options = { handler: 'chatter', id: ids[n], attempts: 1000, data }
    if (n % 2 === 0) Object.assign(options, { key: `key-${(n / 2) % KEYS}`, keyLimit: 2 })
    await patiently(() =>
      Promise.all([fleet.submit(options), n % 3 === 0 ? fleet.submit(options) : undefined]),
    )
    if (n % every === 0) followers.set(ids[n], cursorsOf(fleet, ids[n], true))
  })
  return { ids, followers }
}

/** A server that is away for longer than the fleet itself waits: asked again, as a user would. */
async function patiently(act) {
  for (let tries = 0; ; tries++) {
    try {
      return await act()
    } catch (error) {
      if (error.code !== 'FLEET_UNREACHABLE' || tries === 10) throw error
    }
  }
}

/** On a slow machine the blows end before the jobs do: what is not done long after that is lost. */
const CALM_MS = 300_000

/**
 * Waits for every job; `calm` is called at `deadline` (or when all are over) and ends the blows. Resolves with
 * how many ended otherwise.
 */
export async function settleAll(fleet, ids, deadline, calm) {
  const faults = { lost: 0, failed: 0 }
  const timer = setTimeout(() => calm(), Math.max(1, deadline - performance.now()))
  await inParallel(ids.length, 16, async (n) => {
    const job = await patiently(() => fleet.job(ids[n])).catch((error) => {
      if (error.code !== 'JOB_NOT_FOUND') throw error
      console.error(error.message)
    })
    if (!job) return void faults.lost++
    const ended = await Promise.race([
      patiently(() => (job.result.catch(() => {}), fleet.job(ids[n]).then((same) => same.result))).then(
        () => 'done',
        () => 'failed',
      ),
      wait(Math.max(1, deadline + CALM_MS - performance.now())).then(() => 'lost'),
    ])
    if (ended !== 'done') faults[ended]++
  })
  clearTimeout(timer)
  calm()
  return faults
}

/** The cursors of a job's events. A reader that gave up continues behind the last one. */
async function cursorsOf(fleet, id, live) {
  const job = await patiently(() => fleet.job(id))
  const cursors = []
  await patiently(async () => {
    for await (const { cursor } of job.events({ from: cursors.at(-1), live })) cursors.push(cursor)
  })
  return cursors
}

/** Waits for the followers. Resolves with how many were told otherwise than the log says afterwards. */
export async function settleFollowers(fleet, followers) {
  let toldOtherwise = 0
  for (const [id, following] of followers) {
    const told = await Promise.race([following, wait(60_000).then(() => [])])
    const stored = await cursorsOf(fleet, id, false)
    // A worker that was frozen can write on behind the job's end.
    if (told.length < EVENTS || told.some((cursor, at) => cursor !== stored[at])) toldOtherwise++
  }
  return { toldOtherwise }
}

/** What the records and logs of jobs that are over say. */
export async function judge(fleet, ids) {
  const found = { twice: 0, torn: 0, attempts: 0 }
  await inParallel(ids.length, 8, async (n) => {
    // One that is not there was counted as lost.
    const job = await fleet.job(ids[n]).catch(() => undefined)
    if (!job) return
    const record = await job.record()
    if (record.state !== 'done') return
    found.attempts += record.attempt
    // The attempt that counts says its own number; were two of them done, the record would have changed once more.
    if (record.result !== record.attempt) found.twice++
    const said = []
    for await (const event of job.events({ live: false }))
      if (event.attempt === record.attempt) said.push(event.n)
    if (said.length !== EVENTS || said.some((number, at) => number !== at)) found.torn++
  })
  const { queues } = await fleet.status()
  const leftInQueue = Object.values(queues).reduce((sum, { queued, running }) => sum + queued + running, 0)
  return { ...found, leftInQueue }
}
