// sheepdog exec: one command in a runtime.
import type { ErrorCode, SheepdogError } from '../lib/error'
import type { ExecuteResult } from '../lib/runtime'
import { parseArguments, UsageError } from './arguments'
import { type Ending, environmentOption, type OptionTable, setting } from './command'
import { signalStatus } from './interrupt'
import { tokenOption, withRuntime } from './runtime_way'

export const summary = 'run a command in a runtime'

export const forms = ['[options] URL -- COMMAND [ARGUMENT ...]']

export const about = `
Runs a command behind URL (ws://...) and passes its output through. One word is a line for the shell of the runtime.
Several words are a program and its arguments.`

export const operands = [{ name: 'URL' }] as const

export const options = {
  cwd: setting('FOLDER', 'working directory in the runtime; created if missing', null),
  env: environmentOption,
  idle: setting('DURATION', 'give up after this long without a message of the runtime'),
  timeout: setting('DURATION', 'give up after this long'),
  token: tokenOption,
} as const satisfies OptionTable

export const notes = `
Exit status: the command's own, as the shell of the runtime reports it: 126 if it can't be executed, 127 if it was not
found, 128+N if signal N ended it. 124 if --timeout passed; 125 if --idle passed; 2 for a wrong command line; 1 if it could not be run. If nobody
reads its output any more (| head), it is stopped: 141.`

export const examples = [
  'sheepdog exec ws://127.0.0.1:8080 -- "npm test | tail"',
  'sheepdog exec ws://127.0.0.1:8080 -- git status',
]

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals, command: words } = parseArguments(args, options)
  const [url, ...extra] = positionals
  if (!url || extra.length > 0 || !words?.length) {
    throw new UsageError('expected a URL and a command: sheepdog exec ws://127.0.0.1:8080 -- npm test')
  }
  const command = words.length === 1 ? words[0]! : words.map(quote).join(' ')
  return withRuntime(
    url,
    values.token,
    async (client, output, signal) => {
      const { results } = await client.executeCommands([{ command, cwd: values.cwd, env: values.env }], {
        idleTimeoutMs: values.idle,
        timeoutMs: values.timeout,
        onCommandOutput: ({ stream, text }) => output.writeData(stream, text),
        signal,
      })
      return statusOf(results[0])
    },
    (error, output) => {
      const status = statusOfCode[(error as SheepdogError).code]
      if (status !== undefined) output.say(`sheepdog exec: ${error.message}`)
      return status
    },
  )
}

const statusOfCode: Partial<Record<ErrorCode, number>> = { RUNTIME_TIMED_OUT: 124, RUNTIME_IDLE: 125 }

function statusOf(result: ExecuteResult['results'][number] | undefined): number {
  if (!result) return 1
  if (result.signal) return signalStatus(result.signal)
  // The wire's word for an end by a signal; runtimes of others don't say by which.
  return result.exitCode < 0 ? 1 : result.exitCode
}

/** A word that a POSIX shell reads as it is. */
function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
