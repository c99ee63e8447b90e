// What an agent does while it works: the same events for all of them. Its session can be gone on with.
//
//   node examples/agent-events.mjs
import { fileURLToPath } from 'node:url'
import { Harness } from 'sheepdog'

const scripted = fileURLToPath(new URL('agent/scripted.mjs', import.meta.url))
const codex = new Harness({ provider: 'codex', binary: [process.execPath, scripted] })

const turn = codex.start('Which files are here?')
for await (const event of turn) {
  if (event.type === 'tool_start') console.log(`> ${event.name}`, event.input)
  if (event.type === 'tool_end') console.log(`< exit ${event.exitCode}: ${event.output?.trim()}`)
  if (event.type === 'text') console.log(event.text)
}
const { sessionId } = await turn.result

const { text } = await codex.run('And what is in it?', { resume: sessionId })
console.log(`${sessionId} again: ${text}`)
