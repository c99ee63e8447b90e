// @anthropic-ai/sandbox-runtime, for the sections that try or measure the same beside it.
import { spawnSync } from 'node:child_process'
import { install } from '../agents/install.mjs'

const VERSION = '0.0.83'
export const title = `sandbox-runtime ${VERSION}`

/** Its folder of programs, or nothing: what is missing is printed. */
export function findPeer() {
  const missing = ['bwrap', 'socat', 'rg'].filter((program) => spawnSync(program, ['--version']).error)
  const { bin, problem } = install('sandbox-runtime', '@anthropic-ai/sandbox-runtime', VERSION)
  if (missing.length === 0 && !problem) return bin
  console.log(`MISSING ${[...missing, problem].filter(Boolean)}: ${title} was not tried`)
}
