// sheepdog replay: what a recorded run says.
import { readFileSync } from 'node:fs'
import { replay, type ProviderName } from '../lib/index'
import { providerNames } from '../lib/harness/provider'
import { checkHarnessOptions } from '../lib/harness/request'
import { parseArguments, UsageError } from './arguments'
import type { Ending, OptionTable } from './command'
import { describeEvent, describeResult } from './event'

export const summary = 'events and verdict of a recorded run of an agent'

export const forms = ['PROVIDER FILE [options]']

export const about = `
Reads what an agent's CLI printed on stdout (FILE, or - for stdin) and shows the events in it and whether the turn
succeeded. Without --exit and --signal the end of the process counts as unknown, and the agent's own end of turn
decides.`

export const operands = [
  { name: 'PROVIDER', fits: providerNames() },
  { name: 'FILE', fits: 'file' },
] as const

export const options = {
  stderr: { type: 'string', value: 'FILE', fits: 'file', help: 'what it printed on stderr' },
  exit: { type: 'string', value: 'N', help: 'its exit code' },
  signal: { type: 'string', value: 'S', help: 'the signal that ended it, for example SIGKILL' },
  json: { type: 'boolean', help: 'print JSON lines: each event, then one line with the verdict' },
} as const satisfies OptionTable

export const notes = `
Exit status: 0 if the turn succeeded, else 1.`

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals, command } = parseArguments(args, options)
  const [provider, file, ...rest] = [...positionals, ...(command ?? [])]
  if (!provider || !file)
    throw new UsageError('a provider and a file are needed: sheepdog replay PROVIDER FILE')
  if (rest.length > 0) throw new UsageError(`${JSON.stringify(rest[0])} was not expected`)
  if (values.exit !== undefined && !/^\d{1,3}$/.test(values.exit)) {
    throw new UsageError(`--exit: expected an exit code, got ${JSON.stringify(values.exit)}`)
  }
  if (values.exit !== undefined && values.signal !== undefined)
    throw new UsageError('--exit and --signal exclude each other')
  // A name that is wrong is told before a file that is missing.
  checkHarnessOptions({ provider })
  const replayed = replay(provider as ProviderName, {
    stdout: read(file === '-' ? 0 : file),
    stderr: values.stderr === undefined ? undefined : read(values.stderr).toString(),
    exitCode: values.exit === undefined ? undefined : Number(values.exit),
    signal: values.signal,
  })
  const { ok, events, result, error } = replayed
  const lines = events.map((event) => (values.json ? JSON.stringify(event) : describeEvent(event)))
  if (values.json) lines.push(JSON.stringify({ type: 'result', ok, error, result }))
  else {
    if (result.text) lines.push('', result.text, '')
    lines.push(
      ok
        ? `ok: ${describeResult(result)}`
        : `${error!.code}${error!.kind ? ` (${error!.kind})` : ''}: ${error!.message}`,
    )
  }
  process.stdout.write(`${lines.filter((line) => line !== undefined).join('\n')}\n`)
  return ok ? 0 : 1
}

function read(file: string | number): Buffer {
  try {
    return readFileSync(file)
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}
