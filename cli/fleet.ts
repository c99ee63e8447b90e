// sheepdog fleet: the fleet's own server, and how the fleet is.
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Fleet } from '../lib/fleet'
import { parseArguments, UsageError } from './arguments'
import type { Ending, OptionTable } from './command'
import { fleetOptions, fleetTable, withFleet } from './fleet_way'
import { onInterrupt } from './interrupt'
import { json as toJson, print, tell } from './screen'

export const summary = 'run the server of a fleet, and show its state'

export const forms = ['up | status [--json] | down']

export const about = `
up      runs the server of the fleet in --dir until it is ended; without it
        the server ends with the process that started it
status  shows queues, workers, the age of the oldest job, and jobs that make
        no progress, with the reason
down    ends \`sheepdog fleet up\` of the same --dir`

export const operands = [{ name: 'VERB', fits: ['up', 'status', 'down'] }] as const

export const options = {
  json: { type: 'boolean', help: 'status: print JSON' },
  ...fleetTable,
} as const satisfies OptionTable

export const examples = ['sheepdog fleet up', 'sheepdog fleet status --json']

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals } = parseArguments(args, options)
  const [verb, ...rest] = positionals
  if (rest.length > 0) throw new UsageError(`unexpected ${JSON.stringify(rest[0])}`)
  const dir = resolve(values.dir ?? '.sheepdog/fleet')
  if (verb === 'up') return up(values, dir)
  if (verb === 'status') return withFleet(values, (fleet) => status(fleet, values.json ?? false))
  if (verb === 'down') return down(dir)
  throw new UsageError(`expected up, status or down, got ${JSON.stringify(verb ?? '')}`)
}

const keeperFile = 'keeper.json'

async function up(values: Parameters<typeof fleetOptions>[0], dir: string): Promise<number> {
  const fleet = await Fleet.connect({ ...fleetOptions(values), dir })
  const file = join(dir, keeperFile)
  writeFileSync(file, JSON.stringify({ pid: process.pid }), { mode: 0o600 })
  const { server, leaseMs } = await fleet.status()
  tell(`sheepdog: the fleet in ${dir} is up (nats-server ${server}, lease ${leaseMs} ms); Ctrl-C ends it`)
  await new Promise<void>((done) => {
    const leave = onInterrupt(
      () => (leave(), done()),
      () => process.exit(1),
    )
    // Nothing else keeps this process.
    setInterval(() => {}, 2 ** 30)
  })
  rmSync(file, { force: true })
  await fleet.close()
  process.exit(0)
}

async function status(fleet: Fleet, json: boolean): Promise<number> {
  const found = await fleet.status()
  if (json) {
    print(toJson(found, 2))
    return 0
  }
  const lines = [`nats-server ${found.server}, lease ${found.leaseMs} ms`]
  for (const [name, { queued, running, oldestSubmittedAt }] of Object.entries(found.queues)) {
    const age =
      oldestSubmittedAt === undefined
        ? ''
        : `, the oldest for ${Math.round((Date.now() - oldestSubmittedAt) / 1000)} s`
    lines.push(`queue ${name}: ${running} running, ${queued} queued${age}`)
  }
  if (Object.keys(found.queues).length === 0) lines.push('no job is queued or running')
  for (const { name, running, concurrency, queues } of found.workers)
    lines.push(`worker ${name}: ${running.length} of ${concurrency} on ${queues.join(', ')}`)
  if (found.workers.length === 0) lines.push('no worker: start one with `sheepdog work`')
  for (const { id, why } of found.stuck) lines.push(`stuck ${id}: ${why}`)
  print(lines.join('\n'))
  return 0
}

async function down(dir: string): Promise<number> {
  const pid = keeperOf(dir)
  if (pid === undefined) throw new Error(`no \`sheepdog fleet up\` keeps ${dir}`)
  process.kill(pid, 'SIGTERM')
  for (let looks = 0; keeperOf(dir) !== undefined; looks++) {
    if (looks === 200) throw new Error(`process ${pid} does not end`)
    await new Promise((done) => setTimeout(done, 50))
  }
  return 0
}

/** The process that keeps the fleet up, if it still does. */
function keeperOf(dir: string): number | undefined {
  try {
    const { pid } = JSON.parse(readFileSync(join(dir, keeperFile), 'utf8')) as { pid: number }
    process.kill(pid, 0)
    return pid
  } catch {
    return undefined
  }
}
