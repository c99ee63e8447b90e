// The harness beside what a user would write instead: child_process, split, JSON.parse and a switch. A run of each provider that
// nobody iterates.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { meter } from '../meter.mjs'
import { BYTES, record, streams } from '../streams.mjs'
import { table } from '../verdict.mjs'

export function plan({ quick }) {
  const count = quick ? 40_000 : 200_000
  const contenders = Object.keys(streams).flatMap((provider) =>
    ['harness', 'by hand'].map((name) => ({ name: `${name} @${provider}`, provider, count })),
  )
  return { rounds: quick ? 3 : 5, count, contenders }
}

export const title = ({ count }) =>
  `${count / 1000}k lines of ${BYTES} bytes of each agent, only the result wanted`

/** What a user would write. */
function plainly(file) {
  return new Promise((resolve) => {
    const child = spawn('cat', [file], { stdio: ['ignore', 'pipe', 'inherit'] })
    let rest = ''
    let count = 0
    let answer = ''
    child.stdout.setEncoding('utf8')
    child.stdout.on('data', (chunk) => {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop()
      for (const line of lines) {
        const event = JSON.parse(line)
        switch (event.type) {
          case 'assistant':
            answer = event.message.content[0].text
            break
          case 'item.completed':
            answer = event.item.text
            break
          case 'message':
            answer = event.content
            break
          default:
            count++
        }
        count++
      }
    })
    child.on('close', () => resolve({ count, answer }))
  })
}

// An agent that is no bottleneck: it only copies the file to stdout.
async function harness(provider, file) {
  const { Harness } = (await import('../../index.js')).default
  const binary = ['sh', '-c', 'exec cat "$0"', file]
  // Every provider takes this permission. What the agent may do does not matter: it does nothing.
  return () => new Harness({ provider, binary, permission: 'auto' }).run('go')
}

async function read(provider, count, prepare) {
  const folder = mkdtempSync(join(tmpdir(), 'sheepdog-bench-'))
  try {
    const file = join(folder, 'stream')
    record(file, provider, count)
    const { cost } = await meter(await prepare(file))
    return { ...cost, linesPerMs: count / cost.ms }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

export const contenders = {
  harness: ({ provider, count }) => read(provider, count, (file) => harness(provider, file)),
  'by hand': ({ provider, count }) => read(provider, count, (file) => () => plainly(file)),
}

export function print(medians) {
  table(
    Object.entries(medians).map(([name, cost]) => ({
      contender: name,
      'k lines/s': cost.linesPerMs,
      'x by hand': cost.linesPerMs / medians[`by hand @${name.split(' @')[1]}`]?.linesPerMs,
      'main CPU %': (100 * cost.mainMs) / cost.ms,
      'all CPU ms': cost.totalMs,
      'peak RSS MB': cost.rssMb,
    })),
  )
}

export function figures(medians) {
  return Object.keys(streams).flatMap((provider) => {
    const [ours, theirs] = [medians[`harness @${provider}`], medians[`by hand @${provider}`]]
    return [
      [`${provider}: speed against a loop by hand`, ours.linesPerMs / theirs.linesPerMs, '>=', 3, 'x'],
      [`${provider}: peak RSS`, ours.rssMb, '<=', 100, ' MB'],
    ]
  })
}
