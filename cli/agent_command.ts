// An agent after `--`: any program that speaks the Agent Client Protocol.
import { basename } from 'node:path'
import type { AgentProgram, Policy } from '../lib/index'
import { providerNames } from '../lib/harness/provider'
import { type OptionTable, several } from './command'
import { jsonFile } from './file'

/** Options of an agent after `--`. */
export const commandOptions = {
  state: several('FOLDER', 'folder of an agent after -- that --sandbox lets it write; may be repeated'),
  mode: several('LEVEL=ID', 'mode of an agent after -- that enforces this permission level; may be repeated'),
} as const satisfies OptionTable

/** Options of an agent that holds a session. */
export const policyOption = jsonFile<Policy>(
  'JSON: { "allow": [RULE], "deny": [RULE] }, a RULE is { "kind", "name", "command", "path" }',
)

export const protocolProgramOption = several(
  'PROGRAM',
  'program that speaks the protocol; repeat it for leading arguments',
)

/** The agent of these words; its name is that of its program. */
export function agentOf(
  [command, ...args]: string[],
  { state, mode }: { state?: string[]; mode?: AgentProgram['modes'] } = {},
): AgentProgram {
  const words = basename(command!)
    .replace(/\.(?:[cm]?js|py|exe)$/, '')
    .replace(/[^\w.-]/g, '_')
  const name = words.replace(/^[-.]+/, '').slice(0, 60) || 'agent'
  // A known CLI by a command of its own is another agent.
  const isKnown = providerNames().some((known) => known === name)
  return {
    name: isKnown ? `${name}-acp` : name,
    command: command!,
    args,
    state,
    modes: mode,
  }
}
