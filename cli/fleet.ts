// sheepdog fleet: the fleet's own server, and how the fleet is.
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Fleet, type PruneOptions } from '../lib/fleet'
import { parseArguments, parseDuration, UsageError } from './arguments'
import type { Ending, OptionTable } from './command'
import { fleetOptions, fleetTable, withFleet } from './fleet_way'
import { showBytes, showCount } from './figure'
import { onInterrupt } from './interrupt'
import { json as toJson, print, tell } from './screen'

export const summary = 'keep a fleet of this machine up, look at it, remove old jobs'

export const forms = ['up | status [--json] | down', 'prune --older-than DURATION [options]']

export const about = `
up        keeps the server of the fleet in --dir running until it is ended;
          workers and clients come and go. Without it the server ends with the
          process that started it
status    queues, workers, the age of the oldest job, and jobs that make no
          progress, with the reason
down      ends \`sheepdog fleet up\` of the same --dir
prune     removes jobs that ended at least --older-than ago, with their records,
          events, results, artifacts and sessions`

export const operands = [{ name: 'VERB', fits: ['up', 'status', 'down', 'prune'] }] as const

export const options = {
  json: { type: 'boolean', help: 'status, prune: as JSON' },
  'older-than': {
    type: 'string',
    value: 'DURATION',
    help: 'prune: jobs that ended at least this long ago (7d, 12h, 30m)',
  },
  state: {
    type: 'string',
    multiple: true,
    value: 'S',
    fits: ['done', 'failed', 'cancelled', 'dead'],
    help: 'prune: jobs in this state only; may be repeated (default: every state of finished jobs)',
  },
  queue: { type: 'string', value: 'Q', help: 'prune: jobs of this queue only' },
  'dry-run': { type: 'boolean', help: 'prune: count the jobs, remove nothing' },
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
  if (verb === 'prune') {
    const options = pruneOptions(values)
    return withFleet(values, (fleet) => prune(fleet, options, values.json ?? false))
  }
  throw new UsageError(`expected up, status, down or prune, got ${JSON.stringify(verb ?? '')}`)
}

function pruneOptions(values: {
  'older-than'?: string
  state?: string[]
  queue?: string
  'dry-run'?: boolean
}): PruneOptions {
  const { 'older-than': olderThan, state, queue, 'dry-run': dryRun } = values
  if (olderThan === undefined || olderThan === 'off')
    throw new UsageError('prune needs --older-than, a duration such as 7d')
  const wrong = state?.find((name) => !['done', 'failed', 'cancelled', 'dead'].includes(name))
  if (wrong !== undefined)
    throw new UsageError(`--state: expected done, failed, cancelled or dead, got ${JSON.stringify(wrong)}`)
  const olderThanMs = parseDuration('--older-than', olderThan)
  return { olderThanMs, state: state as PruneOptions['state'], queue, dryRun }
}

async function prune(fleet: Fleet, options: PruneOptions, json: boolean): Promise<number> {
  const pruned = await fleet.prune(options)
  const { jobs, objects, bytes } = pruned
  const what = `${showCount(jobs, 'job', 'jobs')} and ${showCount(objects, 'object', 'objects')} (${showBytes(bytes)})`
  const line = options.dryRun ? `would remove ${what}` : `removed ${what}`
  print(json ? toJson(pruned) : line)
  return 0
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
  for (const [name, { bytes, maxBytes, isFull }] of Object.entries(found.storage))
    if (isFull) lines.push(`full ${name}: ${showBytes(bytes)} of ${showBytes(maxBytes)}`)
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
