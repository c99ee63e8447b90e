// sheepdog submit: one job for a fleet.
import { createInterface } from 'node:readline'
import { text as readAll } from 'node:stream/consumers'
import type { Job, JobOptions } from '../lib/fleet'
import type { ProviderName, TurnOptions } from '../lib/harness'
import { providerNames } from '../lib/harness/provider'
import { type ParsedArguments, parseArguments, parseDuration, parseJson, UsageError } from './arguments'
import { type Ending, type OptionTable, numbered, setting, several, flag } from './command'
import { openStream } from './file'
import { fleetTable, withFleet } from './fleet_way'
import { followJob } from './jobs'
import { json, print, tell } from './screen'
import { hostOptions, levelOptions, toAgentSandbox, withoutWorkspace } from './sandbox'

export const summary = 'submit a job to a fleet'

export const forms = [
  'PROVIDER "PROMPT" [options]',
  '--handler NAME [--data JSON] [options]',
  '--jsonl FILE [--queue Q]',
]

export const about = `
Submits a turn of an agent, or a job of the workers' own code, and prints its id. After that the job will be run. A
PROMPT of - is read from stdin.

With --jsonl each line of FILE is a job: an object with the options of fleet.submit(), such as {"handler": "check",
"data": 1}. The ids are printed in the order of the lines. A line that is refused is reported on stderr and does not
fail the others; the exit status is then 1.`

export const operands = [{ name: 'PROVIDER', fits: providerNames() }, { name: 'PROMPT' }] as const

const agentOptions = {
  model: setting('NAME', 'model that the agent uses'),
  ...levelOptions,
  ...hostOptions,
} as const satisfies OptionTable

export const options = {
  handler: setting('NAME', "name of a handler in the workers' own code"),
  data: setting('JSON', 'input of the handler'),
  jsonl: setting('FILE', 'submit one job for each line of FILE; - is stdin'),
  title: setting('TEXT', 'title of the job in lists'),
  tag: several('TAG', 'tag of the job; may be repeated'),
  queue: setting('Q', 'queue (default "default")'),
  priority: numbered('0 to 9; 9 goes first (default 4)'),
  id: setting('ID', 'id of the job; the same id again is the same job'),
  key: setting('K', 'jobs with the same key run one after another'),
  'key-limit': numbered('jobs of a key at once (default 1)'),
  at: {
    ...setting('TIME', 'do not start before this time: 2030-01-31T09:00, or +30m from now'),
    read: parseTime,
  },
  attempts: numbered('attempts in all (default 3)'),
  artifact: several('GLOB', 'keep files that match; may be repeated'),
  cwd: setting('FOLDER', "working directory on the worker's machine", null),
  git: setting('URL', 'work in a checkout of this repository instead'),
  ref: setting('REF', 'branch, tag or full commit id (default: HEAD of the repository)'),
  'keep-checkout': flag("keep the files of a failed job on its worker's disk"),
  ...agentOptions,
  wait: flag('follow the job: events on stderr, result on stdout; exit status 0 if it succeeded'),
  ...fleetTable,
} as const satisfies OptionTable

export const examples = ['sheepdog submit codex "Which tests fail, and why?" --wait']

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals, command } = parseArguments(withoutWorkspace(args), options)
  const [provider, prompt, ...rest] = [...positionals, ...(command ?? [])]
  if (rest.length > 0)
    throw new UsageError(`put the prompt in quotes: ${JSON.stringify(rest[0])} was not expected`)
  checkKind(values, provider, prompt)
  if (values.jsonl !== undefined) return submitLines(values.jsonl, values)
  const what =
    values.handler === undefined
      ? {
          provider: provider as ProviderName,
          prompt: prompt === '-' ? await readAll(process.stdin) : prompt!,
          model: values.model,
          permission: values.permission as TurnOptions['permission'],
          allow: values.allow,
          sandbox: toAgentSandbox(values),
        }
      : {
          handler: values.handler,
          data: values.data,
        }
  const job = {
    ...what,
    title: values.title,
    tags: values.tag,
    queue: values.queue,
    priority: values.priority,
    id: values.id,
    key: values.key,
    keyLimit: values['key-limit'],
    at: values.at,
    attempts: values.attempts,
    artifacts: values.artifact,
    cwd: values.cwd,
    git:
      values.git === undefined
        ? undefined
        : { url: values.git, ref: values.ref, keepOnFailure: values['keep-checkout'] },
  } as JobOptions
  return withFleet(values, async (fleet) => {
    const submitted = await fleet.submit(job)
    if (!values.wait) {
      print(submitted.id)
      return 0
    }
    tell(`sheepdog: job ${submitted.id}`)
    await followJob(submitted, 'stderr')
    return tellEnd(submitted)
  })
}

type Values = ParsedArguments<typeof options>['values']

/** A job is a turn of an agent, a call of a handler, or a line of a file. */
function checkKind(values: Values, provider: string | undefined, prompt: string | undefined): void {
  if (values.jsonl !== undefined) {
    if (provider !== undefined)
      throw new UsageError('--jsonl: the jobs are in the file; no PROVIDER is needed')
    const ofLines = { ...fleetTable, jsonl: true, queue: true }
    return refuse('--jsonl', values, (name) => !(name in ofLines))
  }
  if (values.git === undefined && (values.ref !== undefined || values['keep-checkout']))
    throw new UsageError('--ref and --keep-checkout need --git URL')
  if (values.handler === undefined) {
    if (provider === undefined || prompt === undefined)
      throw new UsageError('a provider and a prompt are needed: sheepdog submit PROVIDER "PROMPT"')
    return refuse('a PROVIDER', values, (name) => name === 'data')
  }
  if (provider !== undefined)
    throw new UsageError(`--handler: no PROVIDER can be given with it, got ${JSON.stringify(provider)}`)
  return refuse('--handler', values, (name) => name in agentOptions)
}

/** An option that would be passed over in silence is a mistake. */
function refuse(kind: string, values: object, isForeign: (name: string) => boolean): void {
  const name = Object.keys(values).find(isForeign)
  if (name !== undefined) throw new UsageError(`--${name} can't be given with ${kind}`)
}

/** Jobs that are in memory at a time. */
const atOnce = 5000

async function submitLines(file: string, values: Values): Promise<number> {
  const { queue } = values
  const input = file === '-' ? process.stdin : await openStream('--jsonl', file)
  return withFleet(values, async (fleet) => {
    let [refused, number, waiting] = [0, 0, [] as { number: number; job: JobOptions }[]]
    const refuseLine = (why: string) => {
      refused++
      tell(`sheepdog: ${why}`)
    }
    const submit = async () => {
      const answers = await fleet.submitMany(waiting.map(({ job }) => job))
      for (const [at, { id, error }] of answers.entries())
        if (error) refuseLine(`line ${waiting[at]!.number}: ${error.code}: ${error.message}`)
        else print(id)
      waiting = []
    }
    for await (const line of createInterface({ input, crlfDelay: Infinity })) {
      number++
      if (line.trim() === '') continue
      const job = parseJob(`line ${number}`, line)
      if (typeof job === 'string') refuseLine(job)
      else waiting.push({ number, job: { ...(queue !== undefined && { queue }), ...job } })
      if (waiting.length >= atOnce) await submit()
    }
    if (waiting.length > 0) await submit()
    return refused > 0 ? 1 : 0
  })
}

/** The job of a line, or why there is none. */
function parseJob(place: string, line: string): JobOptions | string {
  try {
    const job = parseJson(place, line) as JobOptions & { at?: unknown }
    if (typeof job !== 'object' || job === null || Array.isArray(job)) return `${place}: expected an object`
    return typeof job.at === 'string' ? { ...job, at: parseTime(`${place}: at`, job.at) } : job
  } catch (error) {
    return (error as Error).message
  }
}

async function tellEnd(job: Job): Promise<number> {
  try {
    const result: unknown = await job.result
    const text = (result as { text?: unknown } | null)?.text
    print(typeof text === 'string' ? text : json(result, 2))
    return 0
  } catch (error) {
    const { code, message } = error as { code?: string; message: string }
    tell(`sheepdog: ${code}: ${message}`)
    return 1
  }
}

function parseTime(flag: string, text: string): Date {
  const time = text.startsWith('+')
    ? new Date(Date.now() + parseDuration(flag, text.slice(1)))
    : new Date(text)
  if (Number.isNaN(time.getTime()))
    throw new UsageError(`${flag}: expected a date, or a duration such as +30m, got ${JSON.stringify(text)}`)
  return time
}
