// A coding agent as a function: a prompt goes in, an answer that fits a schema comes out.
//
//   node examples/agent-as-a-function.mjs
import { fileURLToPath } from 'node:url'
import { Harness, SheepdogError } from 'sheepdog'

const scripted = fileURLToPath(new URL('agent/scripted.mjs', import.meta.url))
const codex = new Harness({
  provider: 'codex',
  binary: [process.execPath, scripted], // leave it out to run the real one
})
const schema = {
  type: 'object',
  properties: { files: { type: 'array', items: { type: 'string' } } },
  required: ['files'],
  additionalProperties: false,
}

try {
  const { structured, usage, toolCalls } = await codex.run('Which files are here?', { schema })
  console.log(structured.files, `${toolCalls} tool call, ${usage.inputTokens + usage.outputTokens} tokens`)
} catch (error) {
  if (!(error instanceof SheepdogError)) throw error
  // AGENT_FAILED has a kind: "auth", "rate_limit", "quota", ... What there is of the result is in the error.
  console.error(error.code, error.message)
  process.exitCode = 1
}
