// Sessions with the scripted agent of the protocol: what a thousand prompts leave in memory, how fast small pieces of text come
// through, and how long an agent that obeys takes to be cancelled; beside a client that only reads lines and parses them.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { meter } from '../meter.mjs'
import { percentile } from '../round.mjs'
import { table } from '../verdict.mjs'

const agent = fileURLToPath(new URL('../../fixtures/acp/agent.mjs', import.meta.url))
const PIECE_BYTES = 200

export function plan({ quick }) {
  const few = quick ? 0.1 : 1
  return {
    rounds: quick ? 1 : 3,
    few,
    contenders: [
      { name: 'sheepdog @prompts', work: 'prompts', count: 1000 * few },
      { name: 'sheepdog @pieces', work: 'pieces', count: 500_000 * few },
      { name: 'by hand @pieces', work: 'pieces', count: 500_000 * few },
      { name: 'sheepdog @cancel', work: 'cancels', count: 200 * few },
    ].map((contender) => ({ nodeArgs: ['--expose-gc'], ...contender })),
  }
}

export const title = ({ few }) =>
  `${1000 * few} prompts, ${500_000 * few} pieces of ${PIECE_BYTES} B, ${200 * few} cancels`

async function open() {
  const { Harness } = (await import('../../index.js')).default
  const binary = [process.execPath, agent, '--version', '2']
  return new Harness({ provider: 'claude-code' }).open({ binary, permission: 'auto' })
}

const residentMb = () => {
  globalThis.gc?.()
  return process.memoryUsage().rss / 1e6
}

const works = {
  async prompts({ count }) {
    const session = await open()
    const ask = async (times) => {
      for (let index = 0; index < times; index++) {
        const { text } = await session.prompt('tool')
        if (text !== 'It says hi.') throw new Error(`it said ${text}`)
      }
    }
    // What a first hundred takes is taken once.
    await ask(Math.min(100, count))
    const before = residentMb()
    const { cost } = await meter(() => ask(count))
    const grownMb = residentMb() - before
    await session.close()
    return { grownMb, promptMicros: (cost.ms * 1000) / count }
  },

  async pieces({ count }) {
    const session = await open()
    let letters = 0
    const { cost } = await meter(async () => {
      const turn = session.start(`flood ${count} ${PIECE_BYTES}`)
      for await (const event of turn) if (event.type === 'text') letters += event.text.length
      await turn.result
    })
    await session.close()
    if (letters !== count * PIECE_BYTES) throw new Error(`${letters} letters of ${count * PIECE_BYTES}`)
    return { piecesPerSecond: (count / cost.ms) * 1000, delayMs: cost.delayMs, rssMb: cost.rssMb }
  },

  async cancels({ count }) {
    const session = await open()
    const times = []
    for (let index = 0; index < count; index++) {
      const turn = session.start('stall')
      for await (const event of turn) if (event.type === 'text') break
      const begun = performance.now()
      await session.cancel()
      times.push(performance.now() - begun)
      await turn.result.catch(() => {})
    }
    await session.close()
    return { cancelP50Ms: percentile(times, 0.5), cancelP99Ms: percentile(times, 0.99) }
  },
}

/** The least that a client can do. */
async function piecesByHand({ count }) {
  const child = spawn(process.execPath, [agent, '--version', '2'], { stdio: ['pipe', 'pipe', 'inherit'] })
  const send = (message) => child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  let letters = 0
  const { cost } = await meter(
    () =>
      new Promise((resolve) => {
        createInterface({ input: child.stdout }).on('line', (line) => {
          const { id, params } = JSON.parse(line)
          const update = params?.update
          if (id === 1) {
            const prompt = [{ type: 'text', text: `flood ${count} ${PIECE_BYTES}` }]
            send({ id: 2, method: 'session/prompt', params: { sessionId: 'session-1', prompt } })
          }
          if (update?.sessionUpdate === 'agent_message_chunk') letters += update.content.text.length
          if (update?.stopReason) resolve()
        })
        send({ id: 1, method: 'session/new', params: { cwd: '/', mcpServers: [] } })
      }),
  )
  child.kill()
  await once(child, 'close')
  if (letters !== count * PIECE_BYTES) throw new Error(`${letters} letters of ${count * PIECE_BYTES}`)
  return { piecesPerSecond: (count / cost.ms) * 1000, delayMs: cost.delayMs, rssMb: cost.rssMb }
}

export const contenders = {
  sheepdog: (parameters) => works[parameters.work](parameters),
  'by hand': piecesByHand,
}

export function print(medians) {
  table(
    Object.entries(medians).map(([name, cost]) => ({
      contender: name,
      'grown by MB': cost.grownMb,
      'prompt us': cost.promptMicros && Math.round(cost.promptMicros),
      'pieces/s': cost.piecesPerSecond && Math.round(cost.piecesPerSecond),
      'loop delay p99 ms': cost.delayMs,
      'peak RSS MB': cost.rssMb,
      'cancel p50 ms': cost.cancelP50Ms,
      'cancel p99 ms': cost.cancelP99Ms,
    })),
  )
}

export function figures(medians) {
  const pieces = medians['sheepdog @pieces']
  return [
    ['a thousand prompts: growth', medians['sheepdog @prompts'].grownMb, '<=', 20, ' MB'],
    ['pieces of text a second', pieces.piecesPerSecond, '>=', 100_000, ''],
    ['pieces of text: loop delay p99', pieces.delayMs, '<=', 16, ' ms'],
    ['cancel of an agent that obeys, p99', medians['sheepdog @cancel'].cancelP99Ms, '<=', 300, ' ms'],
  ]
}
