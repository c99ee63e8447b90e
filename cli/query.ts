// sheepdog query: one prompt to a runtime.
import { RuntimeClient } from '../lib/runtime'
import { parseArguments, parseDuration, UsageError } from './arguments'
import { onInterrupt } from './interrupt'
import { signalStatus } from './verdict'

export const summary = 'ask the agent of a runtime'

export const usage = `Usage: sheepdog query [options] URL "PROMPT"

Asks the agent behind URL (ws://...) and prints its answer to standard output; what it says
meanwhile, and what commands print, goes to standard error.

Options:
  --model M          default ""
  --system TEXT      the system prompt
  --schema FILE      a JSON Schema that the answer fits; the answer is printed as JSON
  --timeout DURATION give up after so long
  --token T          (default: the variable SHEEPDOG_RUNTIME_TOKEN)
  -h, --help         show this

Exit status: 0, or 1 when there is no answer.
`

export async function run(args: string[]): Promise<number> {
  const { values, positionals } = parseArguments(args, {
    model: { type: 'string' },
    system: { type: 'string' },
    schema: { type: 'string' },
    timeout: { type: 'string' },
    token: { type: 'string' },
  })
  const [url, prompt, ...rest] = positionals
  if (!url || prompt === undefined || rest.length > 0) {
    throw new UsageError('expected an URL and a prompt: sheepdog query ws://127.0.0.1:8080 "What is here?"')
  }
  const outputSchema = values.schema === undefined ? undefined : await readSchema(values.schema)
  const controller = new AbortController()
  const done = onInterrupt(
    () => controller.abort(),
    (signal) => process.exit(signalStatus(signal)),
  )
  try {
    await using client = await RuntimeClient.connect(url, {
      token: values.token ?? (process.env.SHEEPDOG_RUNTIME_TOKEN || undefined),
      signal: controller.signal,
    })
    const { data } = await client.query(prompt, {
      systemPrompt: values.system ?? '',
      model: values.model ?? '',
      outputSchema,
      timeoutMs: values.timeout === undefined ? undefined : parseDuration('--timeout', values.timeout),
      onAssistantMessage: (blocks) => process.stderr.write(`${blocks.join('\n')}\n`),
      onCommandOutput: ({ text }) => process.stderr.write(text),
      signal: controller.signal,
    })
    const text = data.type === 'text' ? data.text : JSON.stringify(data.structuredOutput, undefined, 2)
    process.stdout.write(text.endsWith('\n') ? text : `${text}\n`)
    return 0
  } finally {
    done()
  }
}

async function readSchema(path: string): Promise<object> {
  const { readFile } = await import('node:fs/promises')
  try {
    return JSON.parse(await readFile(path, 'utf8'))
  } catch (error) {
    throw new UsageError(`--schema: ${path}: ${(error as Error).message}`)
  }
}
