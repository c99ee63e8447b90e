// sheepdog replay: what a recorded run says.
import { readFileSync } from 'node:fs'
import { replay, type ProviderName } from '../lib/index'
import { parseArguments, UsageError } from './arguments'
import { describeEvent, describeResult } from './event'

export const summary = 'events and verdict of a recorded run of an agent'

export const usage = `Usage: sheepdog replay PROVIDER FILE [options]

Reads what an agent's CLI printed on stdout (FILE, or - for stdin) and shows the events in it and
whether the turn succeeded. Without --exit and --signal the end of the process counts as unknown, and
the agent's own end of turn decides.

Options:
  --stderr FILE   what it printed on stderr
  --exit N        its exit code
  --signal S      the signal that ended it, for example SIGKILL
  --json          print JSON lines: each event, then one line with the verdict
  -h, --help      show this

Exit status: 0 if the turn succeeded, else 1.
`

const table = {
  stderr: { type: 'string' },
  exit: { type: 'string' },
  signal: { type: 'string' },
  json: { type: 'boolean' },
} as const

export async function run(args: string[]): Promise<number> {
  const { values, positionals, command } = parseArguments(args, table)
  const [provider, file, ...rest] = [...positionals, ...(command ?? [])]
  if (!provider || !file)
    throw new UsageError('a provider and a file are needed: sheepdog replay PROVIDER FILE')
  if (rest.length > 0) throw new UsageError(`${JSON.stringify(rest[0])} was not expected`)
  if (values.exit !== undefined && !/^\d{1,3}$/.test(values.exit)) {
    throw new UsageError(`--exit: expected an exit code, got ${JSON.stringify(values.exit)}`)
  }
  if (values.exit !== undefined && values.signal !== undefined)
    throw new UsageError('--exit and --signal exclude each other')
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
