// sheepdog exec: one command in a runtime.
import { RuntimeClient, type ExecuteResult } from '../lib/runtime'
import { parseArguments, parseDuration, UsageError } from './arguments'
import { onInterrupt, type Interrupt } from './interrupt'
import { Output } from './output'
import { signalStatus } from './verdict'

export const summary = 'run a command in a runtime'

export const usage = `Usage: sheepdog exec [options] URL -- COMMAND [ARGUMENT ...]

Runs a command behind URL (ws://...) and passes its output through. One word is a line for the
shell over there; several are a program and its arguments.

Options:
  --cwd DIRECTORY      over there; made when missing
  --timeout DURATION   give up after so long
  --token T            (default: the variable SHEEPDOG_RUNTIME_TOKEN)
  -h, --help           show this

Exit status: the command's own, 128+N when signal N ended it; 124 when it took too long; 1 when it
could not be run. When nobody reads its output any more (\`| head\`), it is stopped: 141.

Examples:
  sheepdog exec ws://127.0.0.1:8080 -- "npm test | tail"
  sheepdog exec ws://127.0.0.1:8080 -- git status
`

export async function run(args: string[]): Promise<number> {
  const {
    values,
    positionals,
    command: words,
  } = parseArguments(args, {
    cwd: { type: 'string' },
    timeout: { type: 'string' },
    token: { type: 'string' },
  })
  const [url, ...extra] = positionals
  if (!url || extra.length > 0 || !words?.length) {
    throw new UsageError('expected an URL and a command: sheepdog exec ws://127.0.0.1:8080 -- npm test')
  }
  const command = words.length === 1 ? words[0]! : words.map(quote).join(' ')
  const controller = new AbortController()
  let interrupt: Interrupt | undefined
  const output = new Output(undefined, () => controller.abort())
  const done = onInterrupt(
    (signal) => {
      interrupt = signal
      controller.abort()
    },
    (signal) => process.exit(signalStatus(signal)),
  )
  try {
    await using client = await RuntimeClient.connect(url, {
      token: values.token ?? (process.env.SHEEPDOG_RUNTIME_TOKEN || undefined),
      signal: controller.signal,
    })
    const { results } = await client.executeCommands([{ command, cwd: values.cwd }], {
      timeoutMs: values.timeout === undefined ? undefined : parseDuration('--timeout', values.timeout),
      onCommandOutput: ({ stream, text }) => void output.write(stream, text),
      signal: controller.signal,
    })
    return statusOf(results[0])
  } catch (error) {
    if (interrupt) return signalStatus(interrupt)
    if (output.brokenQuietly) return signalStatus('SIGPIPE')
    if ((error as { code?: string }).code !== 'RUNTIME_TIMED_OUT') throw error
    output.say(`sheepdog exec: ${(error as Error).message}`)
    return 124
  } finally {
    done()
    output.close()
  }
}

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
