// sheepdog jobs: what a fleet has to do, and what became of it.
import type { Fleet, Job, JobListOptions, JobRecord } from '../lib/fleet'
import { type ParsedArguments, parseArguments, UsageError } from './arguments'
import { counted, type Ending, type OptionTable, setting, flag } from './command'
import { describeEvent, showCost } from './event'
import { toldEvent } from './event_line'
import { showCount } from './figure'
import { checkVerb, fleetTable, states, withFleet } from './fleet_way'
import { json as toJson, print, room, tell } from './screen'

export const summary = 'list, show, follow, cancel and retry the jobs of a fleet'

export const forms = [
  '[ls] [options]',
  '--watch [options]',
  'show ID',
  'logs ID [-f]',
  'cancel ID [--force]',
  'retry ID | retry --all [options]',
]

export const about = `
ls      list the jobs that the fleet knows: first those that are over, in the
        order of their ends, then the others in the order of their submission.
        With --watch list those that are not over, then each job that changes
show    print the record of a job and its artifacts, as JSON: each attempt with
        its error, tokens and cost
logs    print its events so far; with -f also those to come, until it is over
cancel  cancel it; with --force without waiting for its worker
retry   give a job that did not succeed new attempts; with --all every such job
        that fits --queue, --state, --tag and --title`

export const operands = [{ name: 'VERB', fits: ['ls', 'show', 'logs', 'cancel', 'retry'] }] as const

export const options = {
  queue: setting('Q', 'ls, retry: jobs of this queue only'),
  state: states(
    'ls, retry: jobs in this state only: queued, running, done, failed, cancelled or dead; may be repeated',
    ['queued', 'running', 'done', 'failed', 'cancelled', 'dead'],
  ),
  tag: setting('TAG', 'ls, retry: jobs with this tag only'),
  title: setting('TEXT', 'ls, retry: jobs whose title contains this text only'),
  limit: counted('ls: at most so many jobs'),
  after: setting('ID', 'ls: begin after this job'),
  watch: flag('ls: go on with each job that changes, until it is ended'),
  all: flag('retry: every job that fits, instead of one'),
  json: flag('print JSON lines: ls: one for each record; logs: one for each event'),
  follow: { type: 'boolean', short: 'f', help: 'logs: follow the job until it is over' },
  force: flag('cancel: do not wait for the worker'),
  ...fleetTable,
} as const satisfies OptionTable

export const examples = ['sheepdog jobs ls --state failed', 'sheepdog jobs logs ID -f']

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals } = parseArguments(args, options)
  const [verb = 'ls', id, ...rest] = positionals
  if (rest.length > 0) throw new UsageError(`unexpected ${JSON.stringify(rest[0])}`)
  const act = Object.hasOwn(verbs, verb) ? verbs[verb] : undefined
  if (!act && verb !== 'ls')
    throw new UsageError(
      `unknown verb ${JSON.stringify(verb)}; the verbs are ls, ${Object.keys(verbs).join(', ')}`,
    )
  checkVerb(verb, options, values)
  if (!act) {
    if (id !== undefined) throw new UsageError(`unexpected ${JSON.stringify(id)}`)
    const filter = filterOf(values)
    return withFleet(values, (fleet) =>
      values.watch ? watch(fleet, filter, values) : list(fleet, filter, values),
    )
  }
  if (verb === 'retry' && values.all) {
    if (id !== undefined) throw new UsageError(`unexpected ${JSON.stringify(id)}`)
    const { limit: _, after: __, ...filter } = filterOf(values)
    return withFleet(values, async (fleet) => {
      const { jobs } = await fleet.retryMany(filter)
      print(showCount(jobs, 'job', 'jobs'))
      return 0
    })
  }
  if (id === undefined) throw new UsageError(`the id of a job is needed: sheepdog jobs ${verb} ID`)
  return withFleet(values, async (fleet) => act(await fleet.job(id), values))
}

type Values = ParsedArguments<typeof options>['values']

const verbs: Record<string, (job: Job, values: Values) => Promise<number>> = {
  async show(job) {
    const shown = { ...(await job.record()), artifacts: await job.artifacts() }
    print(toJson(shown, 2))
    return 0
  },
  async logs(job, { follow, json }) {
    await followJob(job, 'stdout', { json, live: follow ?? false })
    return 0
  },
  async cancel(job, { force }) {
    const record = await job.cancel({ force })
    print(line(record))
    return record.state === 'cancelled' ? 0 : 1
  },
  async retry(job) {
    await job.retry()
    return 0
  },
}

function filterOf({ queue, state, tag, title, limit, after }: Values): JobListOptions {
  return { queue, state, tag, title, limit, after }
}

async function list(fleet: Fleet, filter: JobListOptions, { json }: Values): Promise<number> {
  for await (const record of fleet.jobs(filter)) {
    print(json ? toJson(record) : line(record))
    if (!(await room('stdout'))) break
  }
  return 0
}

/** The jobs that are not over, then each one that changes. */
async function watch(fleet: Fleet, { limit: _, after: __, ...filter }: JobListOptions, values: Values) {
  const changes = fleet.watch(filter)
  // Begun before the list, which takes longer, so that a change meanwhile is told.
  const first = changes.next()
  await list(fleet, { ...filter, state: filter.state ?? ['queued', 'running'] }, values)
  for (let next = await first; !next.done; next = await changes.next()) {
    print(values.json ? toJson(next.value) : line(next.value))
    if (!(await room('stdout'))) break
  }
  return 0
}

function line(record: JobRecord): string {
  const { id, state, queue, attempt, provider, handler, error, title, usage } = record
  const age = Math.round((Date.now() - record.submittedAt) / 1000)
  const why = error && state !== 'done' ? `  ${error.code}: ${error.message.split('\n')[0]}` : ''
  const name = title === undefined ? '' : `  ${JSON.stringify(title)}`
  const tokens = usage ? `  ${showCount(usage.inputTokens + usage.outputTokens, 'token')}` : ''
  const spent = usage?.costUsd ? `${tokens}  ${showCost(usage.costUsd)}` : tokens
  return `${id}  ${state.padEnd(9)}  ${provider ?? handler}${name}  queue ${queue}  attempt ${attempt}  ${age}s old${spent}${why}`
}

/** Writes the job's events; without `live` those that there are. */
export async function followJob(
  job: Job,
  to: 'stdout' | 'stderr',
  { json = false, live = true }: { json?: boolean; live?: boolean } = {},
): Promise<void> {
  for await (const event of job.events({ live })) {
    const text = json ? toJson(event) : (describeEvent(toldEvent(event)) ?? toJson(event))
    if (to === 'stdout') print(text)
    else tell(text)
    // Nobody reads any more: an endless job is not followed without a reader.
    if (!(await room(to))) break
  }
}
