// An agent after `--`: any program that speaks the Agent Client Protocol.
import { basename } from 'node:path'
import type { AgentProgram, HarnessOptions, Policy } from '../lib/index'
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

interface CommandValues {
  state?: string[]
  mode?: AgentProgram['modes']
}

/** The agent of a command line, and the words that are left. After a provider's name, `--` is before words. */
export function whom(
  positionals: string[],
  command: string[] | undefined,
  values?: CommandValues,
): { provider?: HarnessOptions['provider']; words: string[] } {
  const [first, ...rest] = positionals
  const isNamed = providerNames().some((known) => known === first)
  if (command?.length && !isNamed) return { provider: agentOf(command, values), words: positionals }
  return { provider: first as HarnessOptions['provider'] | undefined, words: [...rest, ...(command ?? [])] }
}

/** The agent of these words; its name is that of its program. */
export function agentOf([command, ...args]: string[], { state, mode }: CommandValues = {}): AgentProgram {
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
