// sheepdog query: one prompt to a runtime.
import { parseArguments, UsageError } from './arguments'
import { type Ending, type OptionTable, setting } from './command'
import { schemaOption } from './file'
import { tokenOption, withRuntime } from './runtime_way'
import { json } from './screen'

export const summary = 'send a prompt to the agent of a runtime'

export const forms = ['[options] URL "PROMPT"']

export const about = `
Asks the agent behind URL (ws://...) and prints its answer on stdout. What it says meanwhile, and the output of
commands, goes to stderr.`

export const operands = [{ name: 'URL' }, { name: 'PROMPT' }] as const

export const options = {
  model: setting('M', 'model that the agent uses (default: its own)'),
  system: setting('TEXT', 'system prompt'),
  schema: schemaOption,
  timeout: setting('DURATION', 'give up after this long'),
  token: tokenOption,
} as const satisfies OptionTable

export const notes = `
Exit status: 0, 1 if there is no answer, or 2 for a wrong command line.`

export const examples = ['sheepdog query ws://127.0.0.1:8080 "Which tests fail?"']

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals } = parseArguments(args, options)
  const [url, prompt, ...rest] = positionals
  if (!url || prompt === undefined || rest.length > 0) {
    throw new UsageError('expected a URL and a prompt: sheepdog query ws://127.0.0.1:8080 "What is here?"')
  }
  return withRuntime(url, values.token, async (client, output, signal) => {
    const { data } = await client.query(prompt, {
      systemPrompt: values.system ?? '',
      model: values.model ?? '',
      outputSchema: values.schema,
      timeoutMs: values.timeout,
      onAssistantMessage: (blocks) => output.write('stderr', `${blocks.join('\n')}\n`),
      onCommandOutput: ({ text }) => output.write('stderr', text),
      signal,
    })
    const text = data.type === 'text' ? data.text : json(data.structuredOutput, 2)
    await output.write('stdout', text.endsWith('\n') ? text : `${text}\n`)
    return 0
  })
}
