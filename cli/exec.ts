// sheepdog exec: one command in a runtime.
import { RuntimeClient } from '../lib/runtime'
import { parseArguments, parseDuration, UsageError } from './arguments'
import { onInterrupt } from './interrupt'

export const summary = 'run a command in a runtime'

export const usage = `Usage: sheepdog exec [options] URL -- COMMAND [ARGUMENT ...]

Runs a command behind URL (ws://...) and passes its output through. One word is a line for the
shell over there; several are a program and its arguments.

Options:
  --cwd DIRECTORY      over there; made when missing
  --timeout DURATION   give up after so long
  --token T            (default: the variable SHEEPDOG_RUNTIME_TOKEN)
  -h, --help           show this

Exit status: 0, or 1 when the command failed or could not be run.

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
  const done = onInterrupt(
    () => controller.abort(),
    () => process.exit(130),
  )
  try {
    await using client = await RuntimeClient.connect(url, {
      token: values.token ?? (process.env.SHEEPDOG_RUNTIME_TOKEN || undefined),
      signal: controller.signal,
    })
    const { results } = await client.executeCommands([{ command, cwd: values.cwd }], {
      timeoutMs: values.timeout === undefined ? undefined : parseDuration('--timeout', values.timeout),
      onCommandOutput: ({ stream, text }) => process[stream].write(text),
      signal: controller.signal,
    })
    const exitCode = results[0]?.exitCode ?? 1
    if (exitCode !== 0) process.stderr.write(`sheepdog exec: the command ended with exit code ${exitCode}\n`)
    return exitCode === 0 ? 0 : 1
  } finally {
    done()
  }
}

/** A word that a POSIX shell reads as it is. */
function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
