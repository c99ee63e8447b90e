// What others' tools see: every turn and tool of this process, without a change where they are started.
//
//   node examples/observe.mjs
import diagnostics from 'node:diagnostics_channel'
import { fileURLToPath } from 'node:url'
import { Harness } from 'sheepdog'

diagnostics.subscribe('sheepdog:tool', ({ phase, name, isError }) =>
  console.log('tool', phase, name, isError ?? ''),
)
diagnostics.subscribe('sheepdog:turn', ({ phase, provider }) => console.log('turn', phase, provider))

const scripted = fileURLToPath(new URL('agent/scripted.mjs', import.meta.url))
await new Harness({ provider: 'codex', binary: [process.execPath, scripted] }).run('Which files are here?')
