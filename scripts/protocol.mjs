// copilot-protocol.d.ts: the types of the Copilot CLI's events and RPC, which index.d.ts names. They are most of the text of the
// public types, so they have a file of their own. It is lib/copilot/generated*.ts and json.ts as one.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { entries } from './entries.mjs'
import { root } from './step.mjs'

/** The file's name without its ending. */
export const protocol = 'copilot-protocol'
const parts = ['json', 'generated_events', 'generated']

export const isProtocol = (file) => parts.some((part) => file.endsWith(join('copilot', `${part}.ts`)))

/** Text of the file, by its name. */
export function renderProtocol() {
  if (!entries.includes('copilot')) return {}
  const texts = parts.map((part) => readFileSync(join(root, 'lib', 'copilot', `${part}.ts`), 'utf8'))
  // The parts import from each other. Here they are one file, so these lines go.
  const links = /^(?:import|export) type (?:\{[^}]*\}|\*) from '[^']*'\n/gm
  const banner = '// Generated from lib/copilot/generated*.ts. Do not edit.\n'
  return { [`${protocol}.d.ts`]: banner + texts.map((text) => text.replace(links, '')).join('') }
}
