// `npm run trial -- fleet-frozen [--runs N]`: runs of an agent whose workers are frozen for longer than the lease, while other workers do
// the jobs, and that wake up then: what they commit has to be refused, and nothing of their trees may be left.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { wait } from './cases.mjs'
import { inParallel, loadFleet, startWorker } from './fleet-trial.mjs'
import { fail } from '../scripts/setup.mjs'

const { values } = parseArgs({
  options: { runs: { type: 'string', default: '20' }, built: { type: 'boolean', default: false } },
})
const runs = Number(values.runs)
const perWorker = 5
const leaseMs = 2000
if (process.platform !== 'linux') fail('what is left of a tree is read from /proc, which Linux alone has')
const { Fleet } = loadFleet(values.built)

const dir = mkdtempSync(join(tmpdir(), 'fleet-frozen-'))
const fleet = await Fleet.connect({ dir, leaseMs })
const thread = '{"type":"thread.started","thread_id":"t-1"}'
const said = `{"type":"item.completed","item":{"id":"m","type":"agent_message","text":"by attempt $SHEEPDOG_ATTEMPT"}}`
const done = '{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"output_tokens":1}}'
const line = (text) => `echo "${text.replaceAll('"', String.raw`\"`)}"`
const [go, marks] = [join(dir, 'go'), join(dir, 'ended-')]
// The first attempt ends while its worker is frozen, and leaves somebody behind who would go on for long.
const first = `(sleep 1000 &) ; while [ ! -e ${go} ]; do sleep 0.2; done`
const script = `${line(thread)}; if [ "$SHEEPDOG_ATTEMPT" = 1 ]; then ${first}; fi; ${line(said)}; ${line(done)}; [ "$SHEEPDOG_ATTEMPT" = 1 ] && : > ${marks}$SHEEPDOG_JOB_ID; exit 0`
const harness = {
  provider: 'codex',
  binary: ['sh', '-c', script],
  permission: 'auto',
  toolIdleTimeoutMs: 600_000,
  idleTimeoutMs: 600_000,
}

const ids = []
for (let n = 0; n < runs; n++)
  ids.push((await fleet.submit({ provider: 'codex', prompt: 'x', id: `frozen-${n}` })).id)
const work = (name) => ({ name, concurrency: perWorker, harness })
const frozen = Array.from({ length: Math.ceil(runs / perWorker) }, (_, n) =>
  startWorker({ dir }, work(`frozen-${n}`)),
)
await Promise.all(frozen.map(({ ready }) => ready))
// Every job runs: its agent has told its session.
await inParallel(runs, 16, async (n) => {
  for await (const event of (await fleet.job(ids[n])).events()) if (event.type === 'session') break
})
for (const { worker } of frozen) worker.kill('SIGSTOP')
writeFileSync(go, '')
const awake = Array.from({ length: 4 }, (_, n) => startWorker({ dir }, work(`awake-${n}`)))
await inParallel(runs, 16, async (n) => (await fleet.job(ids[n])).result)
// All their agents have ended: what the frozen do first when they wake is to commit.
while (readdirSync(dir).filter((name) => name.startsWith('ended-')).length < runs) await wait(100)
const before = await Promise.all(ids.map(async (id) => JSON.stringify(await (await fleet.job(id)).record())))
for (const { worker } of frozen) worker.kill('SIGCONT')
// They have understood when they can be drained; then they end.
for (const { worker } of [...frozen, ...awake]) worker.kill('SIGTERM')
await Promise.all([...frozen, ...awake].map(({ ended }) => ended))
const found = { runs, refused: 0, doneTwice: 0, survivors: survivors() }
await inParallel(runs, 16, async (n) => {
  const record = await (await fleet.job(ids[n])).record()
  const isSecond =
    record.worker?.startsWith('awake-') && record.result?.text === `by attempt ${record.attempt}`
  if (JSON.stringify(record) === before[n] && isSecond) found.refused++
  else found.doneTwice++
})
await fleet.close()
rmSync(dir, { recursive: true, force: true })
console.log(JSON.stringify(found))
process.exit(found.refused === runs && found.survivors === 0 ? 0 : 1)

/** Processes of the jobs' trees. */
function survivors() {
  return readdirSync('/proc').filter((pid) => {
    try {
      return (
        /^\d+$/.test(pid) &&
        readFileSync(`/proc/${pid}/environ`, 'latin1').includes('SHEEPDOG_JOB_ID=frozen-')
      )
    } catch {
      return false
    }
  }).length
}
