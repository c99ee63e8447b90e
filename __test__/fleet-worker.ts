// A fleet for tests: a server of its own in a temporary folder, and workers that are processes to be killed.
import { spawn, type ChildProcess } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { once } from 'node:events'
import { afterAll } from 'vitest'
import { Fleet, type FleetOptions, type WorkOptions } from '../entries/fleet.js'
import { findServer } from '../scripts/nats-server.mjs'

const { server, problem } = findServer()
if (server) process.env.SHEEPDOG_NATS_SERVER = server
else if (process.env.CI) throw new Error(`the fleet's tests need a nats-server: ${problem}`)
else console.warn(`THE FLEET IS NOT TESTED: ${problem}`)

/** Without a server there is nothing to test; in CI that is a failure. */
export const hasServer = server !== undefined

export const newFolder = () => mkdtempSync(join(tmpdir(), 'fleet-spec-'))

let counter = 0
/** A queue of its own: tests of one server don't meet. */
export const newQueue = () => `q${counter++}`

const children: ChildProcess[] = []
afterAll(() => children.forEach((child) => child.kill('SIGKILL')))

/** A worker in a process of its own, once it works; its first job may have ended it by then. */
export async function workerProcess(options: FleetOptions, work: WorkOptions = {}): Promise<ChildProcess> {
  const child = spawn(
    process.execPath,
    [join(__dirname, '../fixtures/fleet/worker.mjs'), JSON.stringify(options), JSON.stringify(work)],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  children.push(child)
  await Promise.race([once(child.stdout!, 'data'), once(child, 'exit')])
  return child
}

/** Resolves when a process is gone, also one that is gone already. */
export async function hasExited(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
}

/** The first event of a job of this type. */
export async function firstEvent(fleet: Fleet, id: string, type: string): Promise<any> {
  const job = await fleet.job(id)
  for await (const event of job.events()) if (event.type === type) return event
  throw new Error(`the job ended without ${type}`)
}

/** What a handler waits for until the test lets it go. */
export function gate(): { held: Promise<void>; go: () => void } {
  let go = () => {}
  const held = new Promise<void>((resolve) => (go = resolve))
  return { held, go }
}

export const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
