// Rounds of contenders that take turns, and the medians of what they measured.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { installNode } from '../trials/agents/install.mjs'

const contender = fileURLToPath(new URL('contender.mjs', import.meta.url))

/**
 * @param plan `{ rounds, contenders: [{ name, ...parameters, nodeArgs?, file? }] }`; file: another contender.mjs than ours
 * @returns for each contender's name the median of each number that it reported
 */
export async function interleave(scenario, plan, program) {
  const samples = new Map(plan.contenders.map(({ name }) => [name, []]))
  for (let round = 0; round < plan.rounds; round++) {
    // Forwards and backwards in turn: nobody always follows the same neighbour.
    const order = round % 2 === 0 ? plan.contenders : [...plan.contenders].reverse()
    for (const parameters of order) {
      progress(`  round ${round + 1} of ${plan.rounds}: ${parameters.name}`)
      samples.get(parameters.name).push(await measure(scenario, parameters, program))
    }
  }
  progress('')
  return Object.fromEntries([...samples].map(([name, list]) => [name, medians(list)]))
}

/** execa 10 needs Node 22. Others run in the Node of the bench. */
function nodeOf(name) {
  return name.startsWith('execa') ? join(installNode(), 'node') : process.execPath
}

/** One contender, once, in a process of its own. */
function measure(scenario, { nodeArgs = [], file = contender, ...parameters }, program) {
  const request = JSON.stringify({ scenario, program, ...parameters })
  return new Promise((resolve, reject) => {
    const child = spawn(nodeOf(parameters.name), [...nodeArgs, file, request], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let text = ''
    child.stdout.setEncoding('utf8').on('data', (chunk) => (text += chunk))
    child.on('error', reject)
    child.on('close', (code, signal) => {
      if (code === 0) resolve(JSON.parse(text))
      else reject(new Error(`${scenario}, ${parameters.name}: the contender ended with ${signal ?? code}`))
    })
  })
}

function medians(list) {
  return Object.fromEntries(
    Object.keys(list[0]).map((key) => [key, median(list.map((sample) => sample[key]))]),
  )
}

export function median(values) {
  const sorted = [...values].sort((left, right) => left - right)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

/** Nearest rank. */
export function percentile(values, share) {
  const sorted = [...values].sort((left, right) => left - right)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]
}

/** A line that replaces itself; nothing where nobody looks. */
function progress(text) {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`)
}
