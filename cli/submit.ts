// sheepdog submit: one job for a fleet.
import { text as readAll } from 'node:stream/consumers'
import type { Job, JobOptions } from '../lib/fleet'
import type { ProviderName, TurnOptions } from '../lib/harness'
import { providerNames } from '../lib/harness/provider'
import { parseArguments, parseDuration, UsageError } from './arguments'
import type { Ending, OptionTable } from './command'
import { fleetTable, withFleet } from './fleet_way'
import { followJob } from './jobs'
import { json, print, tell } from './screen'
import { hostOptions, levelOptions, toAgentSandbox, withoutWorkspace } from './sandbox'

export const summary = 'submit a job to a fleet'

export const forms = ['PROVIDER "PROMPT" [options]', '--handler NAME [--data JSON] [options]']

export const about = `
Submits a turn of an agent, or a job of the workers' own code, and prints its id. After that the job will be run. A
PROMPT of - is read from stdin.`

export const operands = [{ name: 'PROVIDER', fits: providerNames() }, { name: 'PROMPT' }] as const

export const options = {
  handler: { type: 'string', value: 'NAME', help: "name of a handler in the workers' own code" },
  data: { type: 'string', value: 'JSON', help: 'input of the handler' },
  queue: { type: 'string', value: 'Q', help: 'queue (default "default")' },
  priority: { type: 'string', value: 'N', help: '0 to 9; 9 goes first (default 4)' },
  id: { type: 'string', value: 'ID', help: 'id of the job; the same id again is the same job' },
  key: { type: 'string', value: 'K', help: 'jobs with the same key run one after another' },
  'key-limit': { type: 'string', value: 'N', help: 'jobs of a key at once (default 1)' },
  at: {
    type: 'string',
    value: 'TIME',
    help: 'do not start before this time: 2030-01-31T09:00, or +30m from now',
  },
  attempts: { type: 'string', value: 'N', help: 'attempts in all (default 3)' },
  artifact: {
    type: 'string',
    multiple: true,
    value: 'GLOB',
    help: 'keep files that match; may be repeated',
  },
  cwd: { type: 'string', value: 'FOLDER', help: "working directory on the worker's machine" },
  git: { type: 'string', value: 'URL', help: 'work in a checkout of this repository instead' },
  ref: {
    type: 'string',
    value: 'REF',
    help: 'branch, tag or full commit id (default: HEAD of the repository)',
  },
  'keep-checkout': { type: 'boolean', help: "keep the files of a failed job on its worker's disk" },
  model: { type: 'string', value: 'NAME', help: 'model that the agent uses' },
  ...levelOptions,
  ...hostOptions,
  wait: {
    type: 'boolean',
    help: 'follow the job: events on stderr, result on stdout; exit status 0 if it succeeded',
  },
  ...fleetTable,
} as const satisfies OptionTable

export const examples = ['sheepdog submit codex "Which tests fail, and why?" --wait']

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals, command } = parseArguments(withoutWorkspace(args), options)
  const [provider, prompt, ...rest] = [...positionals, ...(command ?? [])]
  if (rest.length > 0)
    throw new UsageError(`put the prompt in quotes: ${JSON.stringify(rest[0])} was not expected`)
  if (values.handler === undefined && (provider === undefined || prompt === undefined))
    throw new UsageError('a provider and a prompt are needed: sheepdog submit PROVIDER "PROMPT"')
  if (values.git === undefined && (values.ref !== undefined || values['keep-checkout']))
    throw new UsageError('--ref and --keep-checkout need --git URL')
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
      : { handler: values.handler, data: values.data === undefined ? undefined : parseData(values.data) }
  const job = {
    ...what,
    queue: values.queue,
    priority: toNumber('--priority', values.priority),
    id: values.id,
    key: values.key,
    keyLimit: toNumber('--key-limit', values['key-limit']),
    at: values.at === undefined ? undefined : parseTime(values.at),
    attempts: toNumber('--attempts', values.attempts),
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

function toNumber(option: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  if (!/^\d+$/.test(text)) throw new UsageError(`${option}: expected a number, got ${JSON.stringify(text)}`)
  return Number(text)
}

function parseData(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new UsageError(`--data: invalid JSON: ${(error as Error).message}`)
  }
}

function parseTime(text: string): Date {
  const time = text.startsWith('+')
    ? new Date(Date.now() + parseDuration('--at', text.slice(1)))
    : new Date(text)
  if (Number.isNaN(time.getTime()))
    throw new UsageError(`--at: expected a date, or a duration such as +30m, got ${JSON.stringify(text)}`)
  return time
}
