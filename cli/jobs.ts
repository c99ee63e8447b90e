// sheepdog jobs: what a fleet has to do, and what became of it.
import type { Fleet, Job, JobRecord } from '../lib/fleet'
import type { AgentEvent } from '../lib/harness'
import { parseArguments, UsageError } from './arguments'
import type { Ending, OptionTable } from './command'
import { describeEvent } from './event'
import { fleetTable, withFleet } from './fleet_way'
import { json as toJson, print, room, tell } from './screen'

export const summary = 'list, show, follow, cancel and retry the jobs of a fleet'

export const forms = [
  '[ls] [--queue Q] [--state S] [--json]',
  'show ID',
  'logs ID [-f]',
  'cancel ID [--force]',
  'retry ID',
]

export const about = `
ls      list the jobs that the fleet knows, the oldest first
show    print the record of a job and its artifacts, as JSON
logs    print its events so far; with -f also those to come, until it is over
cancel  cancel it; with --force without waiting for its worker
retry   give a job that did not succeed new attempts`

export const operands = [{ name: 'VERB', fits: ['ls', 'show', 'logs', 'cancel', 'retry'] }] as const

export const options = {
  queue: { type: 'string', value: 'Q', help: 'ls: jobs of this queue only' },
  state: {
    type: 'string',
    value: 'S',
    fits: ['queued', 'running', 'done', 'failed', 'cancelled', 'dead'],
    help: 'ls: jobs in this state only: queued, running, done, failed, cancelled or dead',
  },
  json: { type: 'boolean', help: 'print JSON lines: ls: one for each record; logs: one for each event' },
  follow: { type: 'boolean', short: 'f', help: 'logs: follow the job until it is over' },
  force: { type: 'boolean', help: 'cancel: do not wait for the worker' },
  ...fleetTable,
} as const satisfies OptionTable

export const examples = ['sheepdog jobs ls --state failed', 'sheepdog jobs logs ID -f']

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals } = parseArguments(args, options)
  const [verb = 'ls', id, ...rest] = positionals
  if (rest.length > 0) throw new UsageError(`unexpected ${JSON.stringify(rest[0])}`)
  if (verb === 'ls') {
    if (id !== undefined) throw new UsageError(`unexpected ${JSON.stringify(id)}`)
    return withFleet(values, (fleet) => list(fleet, values))
  }
  const act = verbs[verb]
  if (!act)
    throw new UsageError(
      `unknown verb ${JSON.stringify(verb)}; the verbs are ls, ${Object.keys(verbs).join(', ')}`,
    )
  if (id === undefined) throw new UsageError(`the id of a job is needed: sheepdog jobs ${verb} ID`)
  return withFleet(values, async (fleet) => act(await fleet.job(id), values))
}

interface Values {
  queue?: string
  state?: string
  json?: boolean
  follow?: boolean
  force?: boolean
}

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

async function list(fleet: Fleet, { queue, state, json }: Values): Promise<number> {
  for await (const record of fleet.jobs({ queue, state } as object)) {
    print(json ? toJson(record) : line(record))
    if (!(await room('stdout'))) break
  }
  return 0
}

function line(record: JobRecord): string {
  const { id, state, queue, attempt, provider, handler, error } = record
  const age = Math.round((Date.now() - record.submittedAt) / 1000)
  const why = error && state !== 'done' ? `  ${error.code}: ${error.message.split('\n')[0]}` : ''
  return `${id}  ${state.padEnd(9)}  ${provider ?? handler}  queue ${queue}  attempt ${attempt}  ${age}s old${why}`
}

/** Writes the job's events; without `live` those that there are. */
export async function followJob(
  job: Job,
  to: 'stdout' | 'stderr',
  { json = false, live = true }: { json?: boolean; live?: boolean } = {},
): Promise<void> {
  for await (const event of job.events({ live })) {
    const text = json ? toJson(event) : (describeEvent(event as unknown as AgentEvent) ?? toJson(event))
    if (to === 'stdout') print(text)
    else tell(text)
    // Nobody reads any more: an endless job is not followed without a reader.
    if (!(await room(to))) break
  }
}
