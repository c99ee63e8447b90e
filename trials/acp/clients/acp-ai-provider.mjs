// @mcpc-tech/acp-ai-provider with the AI SDK as a client of the comparison; words as in sheepdog.mjs, and `{ program, modules }`: the
// agent's, and where both packages are.
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const { program, modules, cwd, prompts, allows, limitMs, cancelAt } = JSON.parse(process.argv[2])
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`)
const { resolve } = createRequire(join(modules, 'x.js'))
const load = (name) => import(pathToFileURL(resolve(name)))
const [{ createACPProvider }, { streamText }] = await Promise.all([
  load('@mcpc-tech/acp-ai-provider'),
  load('ai'),
])
const [command, ...args] = program
const provider = createACPProvider({ command, args, session: { cwd, mcpServers: [] }, persistSession: true })
const model = provider.languageModel()
// Without this the first of the options is taken.
model.setPermissionRequestHandler?.(({ options }) => {
  const kind = allows === false ? /^reject/ : /^allow_once/
  const { optionId } = options.find((option) => kind.test(option.kind)) ?? options[0]
  return { outcome: { outcome: 'selected', optionId } }
})
for (const prompt of prompts) {
  const controller = new AbortController()
  // A clock for the whole is the one that it has.
  const signal = limitMs
    ? AbortSignal.any([controller.signal, AbortSignal.timeout(limitMs)])
    : controller.signal
  let failure
  let text = ''
  const onError = ({ error }) => (failure = error)
  const stream = streamText({
    model,
    prompt,
    tools: provider.tools,
    abortSignal: signal,
    onError,
    maxRetries: 0,
  })
  for await (const part of stream.fullStream) {
    if (part.type === 'text-delta') text += part.text
    if (part.type === 'error') failure ??= part.error
    if (part.type === 'abort') failure ??= new Error('aborted')
    const what = /^tool-(input-start|call)$/.test(part.type)
      ? 'tool'
      : part.type === 'text-delta'
        ? 'text'
        : part.type
    say({ seen: what })
    if (what === cancelAt) controller.abort()
  }
  say(failure ? { ok: false, error: String(failure.message ?? failure) } : { ok: true, text })
}
provider.cleanup()
