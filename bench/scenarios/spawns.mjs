// A burst of spawns from a host with a small and with a large heap: how fast they start, and how long the loop stands still.
import { spawn as nodeSpawn } from 'node:child_process'
import { once } from 'node:events'
import { meter } from '../meter.mjs'
import { table } from '../verdict.mjs'

const HEAPS = { '100 MB': 100, '2 GB': 2000 }

export function plan({ quick }) {
  const names = ['idle', 'node', 'sheepdog', 'sheepdog group', 'execa', 'tinyexec']
  const contenders = Object.entries(HEAPS).flatMap(([heap, heapMb]) =>
    names.map((name) => ({
      name: `${name} @${heap}`,
      heapMb,
      spawns: 200,
      nodeArgs: ['--max-old-space-size=4096'],
    })),
  )
  return { rounds: quick ? 3 : 7, spawns: 200, contenders }
}

export const title = ({ spawns }) => `${spawns} spawns in a burst, until all have started`

/** Old space full of numbers: memory of the JavaScript heap, as a host's is. */
function fillHeap(megabytes) {
  const arrays = []
  while (arrays.length < megabytes * 8) arrays.push(new Array(16384).fill(0.5))
  return arrays
}

const program = ['sleep', ['60']]

/** Each starts `count` programs, resolves when all run, and gives what ends them. */
const starts = {
  async node(count) {
    const children = Array.from({ length: count }, () =>
      nodeSpawn(...program, { stdio: ['ignore', 'pipe', 'pipe'] }),
    )
    await Promise.all(children.map((child) => once(child, 'spawn')))
    return () => children.forEach((child) => child.kill('SIGKILL'))
  },
  async execa(count) {
    const { execa } = await import('execa')
    const children = Array.from({ length: count }, () =>
      execa(...program, { stdin: 'ignore', reject: false }),
    )
    await Promise.all(
      children.map(async (child) => once(await Promise.resolve(child.nodeChildProcess), 'spawn')),
    )
    return () => children.forEach((child) => child.kill('SIGKILL'))
  },
  async tinyexec(count) {
    const { x } = await import('tinyexec')
    const children = Array.from({ length: count }, () =>
      x(...program, { nodeOptions: { stdio: ['ignore', 'pipe', 'pipe'] } }),
    )
    await Promise.all(children.map(({ process }) => once(process, 'spawn')))
    return () => children.forEach((child) => child.kill('SIGKILL'))
  },
  sheepdog: (count) => startWatched(count, {}),
  'sheepdog group': (count) => startWatched(count, { containment: 'group' }),
}

async function startWatched(count, options) {
  const { spawn } = (await import('../../index.js')).default
  const children = Array.from({ length: count }, () => spawn(...program, { killGraceMs: 0, ...options }))
  await Promise.all(children.map(({ started }) => started))
  return () => Promise.all(children.map((child) => child.kill().catch(() => {})))
}

async function burst(name, { heapMb, spawns }) {
  const heap = fillHeap(heapMb)
  const start = starts[name]
  // The first of each loads and prepares things once.
  await (
    await start(2)
  )()
  const { cost, value: end } = await meter(() => start(spawns))
  await end()
  return { ...cost, spawnsPerSecond: (spawns * 1e3) / cost.ms, heapArrays: heap.length }
}

export const contenders = {
  ...Object.fromEntries(Object.keys(starts).map((name) => [name, (parameters) => burst(name, parameters)])),
  async idle({ heapMb }) {
    const heap = fillHeap(heapMb)
    const { cost } = await meter(() => new Promise((resolve) => setTimeout(resolve, 500)))
    return { ...cost, spawnsPerSecond: 0, heapArrays: heap.length }
  },
}

export function print(medians) {
  for (const heap of Object.keys(HEAPS)) {
    const base = medians[`node @${heap}`]
    console.log(`  with a heap of ${heap}:`)
    table(
      Object.entries(medians)
        .filter(([name]) => name.endsWith(`@${heap}`))
        .map(([name, cost]) => ({
          contender: name.replace(/ @.*/, ''),
          'spawns/s': cost.spawnsPerSecond || undefined,
          'x node': cost.spawnsPerSecond / base.spawnsPerSecond || undefined,
          'main CPU ms': cost.mainMs,
          'all CPU ms': cost.totalMs,
          'loop delay p99 ms': cost.delayMs,
        })),
    )
  }
}

export function figures(medians) {
  const least = {
    '100 MB': { sheepdog: 1.5, 'sheepdog group': 2 },
    '2 GB': { sheepdog: 5, 'sheepdog group': 6 },
  }
  return Object.entries(least).flatMap(([heap, names]) =>
    Object.entries(names).flatMap(([name, limit]) => {
      const [ours, node, idle] = [name, 'node', 'idle'].map((one) => medians[`${one} @${heap}`])
      const title = `${heap} heap, ${name === 'sheepdog' ? 'under guard' : 'containment "group"'}`
      return [
        [`${title}: spawns/s against node`, ours.spawnsPerSecond / node.spawnsPerSecond, '>=', limit, 'x'],
        [`${title}: loop delay p99 above an idle loop's`, ours.delayMs - idle.delayMs, '<=', 2, ' ms'],
      ]
    }),
  )
}
