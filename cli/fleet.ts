// sheepdog fleet: the fleet's own server, and how the fleet is.
import { Fleet, type JobOptions, type PruneOptions, type ScheduleOptions } from '../lib/fleet'
import { absolutePath, variable } from '../lib/host'
import { parseArguments, UsageError } from './arguments'
import { type Ending, type OptionTable, flag, setting } from './command'
import { checkVerb, fleetOptions, fleetTable, states, withFleet } from './fleet_way'
import { showBytes, showCount } from './figure'
import { untilInterrupt } from './interrupt'
import { endKeepers, listenForEnd } from './keeper'
import { json as toJson, print, tell } from './screen'

export const summary = 'keep a fleet up, look at it, pause, drain, prune, schedule'

export const helpsAlone = true

export const forms = [
  'up | status [--json] | down',
  'pause QUEUE | resume QUEUE | drain WORKER',
  'prune --older-than DURATION [options]',
  'schedule ID --cron EXPRESSION --job JSON [options]',
  'schedule [ID --remove] [--json]',
]

export const about = `
up        keeps the server of the fleet in --dir running until it is ended;
          workers and clients come and go. Without it the server ends with the
          process that started it. It also starts the runs of schedules
status    queues, workers, the age of the oldest job, and jobs that make no
          progress, with the reason
down      ends \`sheepdog fleet up\` of the same --dir
pause     stops the start of jobs of a queue; running jobs go on
resume    starts them again
drain     has a worker start no more jobs and end after its running jobs
prune     removes jobs that ended at least --older-than ago, with their records,
          events, results, artifacts and sessions
schedule  submits --job at each time of --cron; without ID lists the schedules`

const verbs = ['up', 'status', 'down', 'pause', 'resume', 'drain', 'prune', 'schedule'] as const

export const operands = [{ name: 'VERB', fits: verbs }, { name: 'NAME' }] as const

export const options = {
  json: flag('status, prune, schedule: as JSON'),
  'older-than': setting('DURATION', 'prune: jobs that ended at least this long ago (7d, 12h, 30m)'),
  state: states('prune: jobs in this state only; may be repeated (default: every state of finished jobs)', [
    'done',
    'failed',
    'cancelled',
    'dead',
  ]),
  queue: setting('Q', 'prune: jobs of this queue only'),
  'dry-run': flag('prune: count the jobs, remove nothing'),
  cron: setting(
    'EXPRESSION',
    'schedule: minute, hour, day of the month, month, day of the week; or @daily and its like',
  ),
  'time-zone': setting('ZONE', 'schedule: time zone of --cron, such as Europe/Berlin (default UTC)'),
  'catch-up': setting(
    'POLICY',
    'schedule: what becomes of missed runs: skip drops them, once starts the last one (default skip)',
    ['skip', 'once'],
  ),
  job: setting('JSON', 'schedule: options of the job, such as {"handler": "report"}'),
  remove: flag('schedule: remove the schedule'),
  ...fleetTable,
} as const satisfies OptionTable

export const examples = [
  'sheepdog fleet up',
  'sheepdog fleet status --json',
  `sheepdog fleet schedule n --cron "0 2 * * *" --job '{"handler": "report"}'`,
]

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals } = parseArguments(args, options)
  const [verb, name, ...rest] = positionals
  const isNamed = verb === 'pause' || verb === 'resume' || verb === 'drain'
  const extra = isNamed || verb === 'schedule' ? rest[0] : name
  if (extra !== undefined && isVerb(verb)) throw new UsageError(`unexpected ${JSON.stringify(extra)}`)
  if (isVerb(verb)) checkVerb(verb, options, values)
  const dir = absolutePath(values.dir ?? '.sheepdog/fleet')
  const json = values.json ?? false
  if (verb === 'up') return up(values, dir)
  if (verb === 'status') return withFleet(values, (fleet) => status(fleet, json))
  if (verb === 'down') return down(dir)
  if (isNamed) {
    if (name === undefined) {
      const what = verb === 'drain' ? 'WORKER' : 'QUEUE'
      throw new UsageError(`a name is needed: sheepdog fleet ${verb} ${what}`)
    }
    return withFleet(values, async (fleet) => (await fleet[verb](name), 0))
  }
  if (verb === 'prune') {
    const options = pruneOptions(values)
    return withFleet(values, (fleet) => prune(fleet, options, json))
  }
  if (verb === 'schedule') return schedule(name, values, json)
  throw new UsageError(`expected ${verbs.join(', ')}, got ${JSON.stringify(verb ?? '')}`)
}

function isVerb(verb: string | undefined): verb is (typeof verbs)[number] {
  return verbs.some((known) => known === verb)
}

type Values = ReturnType<typeof parseArguments<typeof options>>['values']

async function schedule(id: string | undefined, values: Values, json: boolean): Promise<number> {
  const { cron, job, remove } = values
  if (id === undefined) {
    if (cron ?? job ?? remove) throw new UsageError('the id of the schedule is needed')
    return withFleet(values, (fleet) => listSchedules(fleet, json))
  }
  if (remove)
    return withFleet(values, async (fleet) => {
      if (await fleet.unschedule(id)) return 0
      throw new Error(`the fleet has no schedule ${JSON.stringify(id)}`)
    })
  if (cron === undefined || job === undefined)
    throw new UsageError('schedule needs --cron EXPRESSION and --job JSON, or --remove')
  const times = { cron, timeZone: values['time-zone'], catchUp: values['catch-up'] } as ScheduleOptions
  return withFleet(values, async (fleet) => (await fleet.schedule(id, times, job as JobOptions), 0))
}

async function listSchedules(fleet: Fleet, json: boolean): Promise<number> {
  const all = await fleet.schedules()
  if (json) print(toJson(all, 2))
  else if (all.length === 0)
    print('no schedule: set one with `sheepdog fleet schedule ID --cron EXPRESSION --job JSON`')
  for (const { id, cron, timeZone, nextAt } of json ? [] : all) {
    const next = nextAt === undefined ? 'never again' : `next ${new Date(nextAt).toISOString()}`
    print(`${id}  ${cron}  ${timeZone}  ${next}`)
  }
  return 0
}

function pruneOptions(values: Values): PruneOptions {
  const { 'older-than': olderThanMs, state, queue, 'dry-run': dryRun } = values
  if (olderThanMs === undefined || olderThanMs === Infinity)
    throw new UsageError('prune needs --older-than, a duration such as 7d')
  return { olderThanMs, states: state, queue, dryRun }
}

async function prune(fleet: Fleet, options: PruneOptions, json: boolean): Promise<number> {
  const pruned = await fleet.prune(options)
  const { jobs, objects, bytes } = pruned
  const what = `${showCount(jobs, 'job', 'jobs')} and ${showCount(objects, 'object', 'objects')} (${showBytes(bytes)})`
  const line = options.dryRun ? `would remove ${what}` : `removed ${what}`
  print(json ? toJson(pruned) : line)
  return 0
}

async function up(values: Parameters<typeof fleetOptions>[0], dir: string): Promise<number> {
  const fleet = await Fleet.connect({ ...fleetOptions(values), dir })
  await fleet.keepSchedules()
  const { server, leaseMs } = await fleet.status()
  let end = () => {}
  const ended = new Promise<void>((resolve) => (end = resolve))
  const forget = await listenForEnd(dir, end)
  const place = (values.servers ?? variable('SHEEPDOG_NATS')) ? '' : ` in ${dir}`
  tell(`sheepdog: the fleet${place} is up (nats-server ${server}, lease ${leaseMs} ms); Ctrl-C ends it`)
  await Promise.race([untilInterrupt(), ended])
  forget()
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
  for (const [name, { queued, running, isPaused, oldestSubmittedAt }] of Object.entries(found.queues)) {
    const age =
      oldestSubmittedAt === undefined
        ? ''
        : `, the oldest for ${Math.round((Date.now() - oldestSubmittedAt) / 1000)} s`
    lines.push(`queue ${name}: ${running} running, ${queued} queued${isPaused ? ', paused' : ''}${age}`)
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
  if ((await endKeepers(dir)) === 0) throw new Error(`no \`sheepdog fleet up\` keeps ${dir}`)
  return 0
}
