// The demo itself, once everything is built: two turns of a coding agent, or the program of the command line.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startModelServer } from '../../fixtures/model-server.mjs'
import { goodTurn } from './good-turn.mjs'
import { stalledTurn } from './stalled-turn.mjs'
import { leaveBy, onInterrupt, watch } from './sheepdog.mjs'
import { table } from './table.mjs'

const [command, ...args] = process.argv.slice(2)
process.exitCode = command === undefined ? await agentDemo() : await commandDemo(command, args)

async function commandDemo(command, args) {
  const ended = await watch(command, args)
  console.log(`\n${table([{ what: [command, ...args].join(' '), ...ended }])}`)
  if (ended.interrupt) leaveBy(ended.interrupt)
  return ended.status
}

async function agentDemo() {
  const folder = await mkdtemp(join(tmpdir(), 'sheepdog-demo-'))
  const server = await startModelServer()
  const abort = new AbortController()
  let status = 1
  const interrupt = onInterrupt(
    () => abort.abort(),
    () => process.exit(130),
  )
  try {
    const place = { folder, server, signal: abort.signal }
    console.log('1. A good turn: the agent calls a tool and answers.\n')
    const good = await goodTurn(place)
    const rows = [good]
    if (!abort.signal.aborted) {
      console.log('\n2. The same agent, but its model stalls in mid-stream.\n')
      rows.push(await stalledTurn(place, good.longestSilenceMs))
    }
    const faults = rows.flatMap(({ faults }) => faults)
    console.log(`\n${table(rows)}\n`)
    const end = ['NOT as it should be:', ...faults.map((fault) => `- ${fault}`)].join('\n')
    console.log(faults.length === 0 ? 'All went as it should.' : end)
    status = abort.signal.aborted ? 130 : faults.length === 0 ? 0 : 1
  } finally {
    interrupt.end()
    await server.close()
    await rm(folder, { recursive: true, force: true, maxRetries: 3 })
  }
  return status
}
