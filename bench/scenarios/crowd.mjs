// A hundred agents at once, each printing a hundred lines a second: what is left of the main thread.
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { meter } from '../meter.mjs'
import { lineOf, streams } from '../streams.mjs'
import { table } from '../verdict.mjs'

const AGENTS = 100
const START_MS = 8000
const player = fileURLToPath(new URL('../../fixtures/bin/agent.mjs', import.meta.url))

export function plan({ quick }) {
  const seconds = quick ? 3 : 5
  const names = ['silent', 'iterated', 'readline']
  return { rounds: quick ? 1 : 3, seconds, contenders: names.map((name) => ({ name, seconds })) }
}

export const title = ({ seconds }) => `${AGENTS} agents, 100 lines/s each, for ${seconds} s`

function playing() {
  const line = JSON.stringify(streams.codex(lineOf('codex'))[1])
  const lines = Array.from({ length: 10 }, () => ({ line }))
  return [
    player,
    JSON.stringify([{ line: { type: 'thread.started', thread_id: 't' } }, { repeat: lines, every: 100 }]),
  ]
}

/** Measures once all run; `start` gives what stops one. */
async function steady(seconds, start) {
  const stops = Array.from({ length: AGENTS }, start)
  await new Promise((resolve) => setTimeout(resolve, START_MS))
  const { cost } = await meter(() => new Promise((resolve) => setTimeout(resolve, seconds * 1000)))
  await Promise.all(stops.map((stop) => stop()))
  return cost
}

async function harnessed(seconds, isIterated) {
  const { Harness } = (await import('../../index.js')).default
  const harness = new Harness({ provider: 'codex', binary: ['node', ...playing()], maxConcurrent: AGENTS })
  return steady(seconds, () => {
    const turn = harness.start('go')
    turn.result.catch(() => {})
    const iterate = async () => {
      for await (const _ of turn);
    }
    if (isIterated) iterate().catch(() => {})
    return () => turn.abort()
  })
}

export const contenders = {
  silent: ({ seconds }) => harnessed(seconds, false),
  iterated: ({ seconds }) => harnessed(seconds, true),
  readline: ({ seconds }) =>
    steady(seconds, () => {
      const child = spawn('node', playing(), { stdio: ['ignore', 'pipe', 'inherit'] })
      createInterface({ input: child.stdout }).on('line', (text) => JSON.parse(text))
      return () => child.kill('SIGKILL')
    }),
}

export function print(medians) {
  table(
    Object.entries(medians).map(([name, cost]) => ({
      contender: name === 'readline' ? 'readline and JSON.parse' : `harness, ${name}`,
      'main CPU %': (100 * cost.mainMs) / cost.ms,
      'all CPU %': (100 * cost.totalMs) / cost.ms,
      'loop delay p99 ms': cost.delayMs,
    })),
  )
}

export function figures({ silent, iterated, readline }) {
  return [
    ["not iterated: main thread against readline's", silent.mainMs / readline.mainMs, '<=', 0.33, 'x'],
    [
      "iterated, two events a line: main thread against readline's",
      iterated.mainMs / readline.mainMs,
      '<=',
      1,
      'x',
    ],
  ]
}
