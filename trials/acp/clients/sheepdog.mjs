// Sheepdog as a client of the comparison: `node sheepdog.mjs '{ provider, model, cwd, prompts, allows, limitMs, cancelAt }'`. Prints a JSON
// line for each thing seen (`{ seen }`) and for each prompt's end (`{ ok, text }` or `{ ok, error }`).
import { createRequire } from 'node:module'

const { Harness } = createRequire(import.meta.url)('../../../index.js')
const { provider, model, cwd, prompts, allows, limitMs, cancelAt } = JSON.parse(process.argv[2])
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`)

const session = await new Harness({ provider }).open({
  cwd,
  model,
  permission: allows === undefined ? 'auto' : 'ask',
  onPermission: allows === undefined ? undefined : () => (allows ? 'allow' : 'reject'),
  idleTimeoutMs: limitMs,
})
for (const prompt of prompts) {
  const turn = session.start(prompt)
  const seen = (async () => {
    for await (const { type } of turn) {
      const what = type === 'tool_start' ? 'tool' : type
      say({ seen: what })
      if (what === cancelAt) void session.cancel()
    }
  })()
  await turn.result.then(
    ({ text }) => say({ ok: true, text }),
    ({ code, kind }) => say({ ok: false, error: kind ? `${code} ${kind}` : code }),
  )
  await seen
}
await session.close()
