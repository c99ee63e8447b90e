// An agent that this package does not know by name: its description, and how it crosses to the core.
import type { AgentSpec, ProviderName } from '../../native/native'
import { invalidOption } from '../error'
import { suggestion } from '../hint'
import { native } from '../native'
import { check, checkVariableName, show } from '../option'

/** Name of an agent: one that this package knows, or the `name` of an `AgentProgram`. */
export type AgentName = ProviderName | (string & {})

/**
 * An agent that this package does not know by name: any program that speaks the Agent Client Protocol on
 * stdin and stdout. Turns, sessions and jobs take it in place of a provider's name.
 *
 * @example
 * const cline = { name: 'cline', command: 'cline', args: ['--acp'] }
 * await using session = await new Harness({ provider: cline }).open({ sandbox: 'workspace' })
 */
export interface AgentProgram {
  /** Name of the agent in results, events and records: letters, digits, "-", "_" and ".". */
  name: string
  /** Program that speaks the protocol: a path, or a name on PATH or in `node_modules/.bin` of `cwd` and the folders above it. */
  command: string
  /**
   * Arguments of the program.
   *
   * @default []
   */
  args?: readonly string[]
  /**
   * Environment variables of the program. The option `env` overrides them.
   *
   * @default {}
   */
  env?: Record<string, string>
  /**
   * Folders in which the agent keeps its state, absolute or below `~`. A `sandbox` lets it write them, and
   * creates those that are missing. A path that ends with ".json" is a file.
   *
   * @default []
   */
  state?: readonly string[]
  /**
   * Ids of the agent's own modes that enforce a permission level. Without a sandbox, a level other than
   * `"auto"` needs its mode here.
   *
   * @default {}
   */
  modes?: {
    /** Mode in which the agent only reads. */
    plan?: string
    /** Mode in which the agent writes in its working directory and asks before anything else. */
    edit?: string
    /** Mode in which the agent asks before it acts. */
    ask?: string
    /** Mode in which the agent does everything without asking. */
    auto?: string
  }
  /**
   * The agent's answer to each prompt has its tokens (`usage`), as the protocol describes them. Without it
   * `maxTokens`, `maxCostUsd` and `budget` are refused, unless a sandbox with hosts counts the tokens.
   *
   * @default false
   */
  reportsUsage?: boolean
}

const levels = ['plan', 'edit', 'ask', 'auto'] as const

const stateFolder = check.expected('an absolute path, or one that begins with "~/", without "|"', (folder) =>
  /^(\/|~\/)[^|]+$/.test(folder as string),
)

const programChecks = {
  name: check.name,
  command: check.name,
  args: check.strings,
  env(path: string, value: unknown) {
    check.record(path, value)
    for (const [name, text] of Object.entries(value as object)) {
      checkVariableName(`${path}[${show(name)}]`, name)
      check.string(`${path}[${show(name)}]`, text)
    }
  },
  state: check.listOf((path, folder) => {
    check.string(path, folder)
    stateFolder(path, folder)
  }, 'an array of strings'),
  modes: check.fields(Object.fromEntries(levels.map((level) => [level, check.name]))),
  reportsUsage: check.boolean,
}

const program = check.fields(programChecks, 'name', 'command')

export function checkProvider(path: string, value: unknown): void {
  if (typeof value === 'object' && value !== null) return program(path, value)
  const names: string[] = native.providerNames()
  if (typeof value !== 'string')
    throw invalidOption(path, `expected the name of a provider, or { name, command }, got ${show(value)}`)
  if (!names.includes(value)) {
    const others = `; there are ${names.join(', ')}, and { name, command } runs any other agent`
    throw invalidOption(path, `no provider is named ${show(value)}${suggestion(value, names) || others}`)
  }
}

/** @internal The name of a provider. */
export function agentName(provider: ProviderName | AgentProgram): AgentName {
  return typeof provider === 'string' ? provider : provider.name
}

/** @internal The part of a provider that crosses to the core; its environment does with all other variables. */
export function providerSpec(
  provider: ProviderName | AgentProgram,
  binary: string | readonly string[] | undefined,
): Pick<AgentSpec, 'provider' | 'binary' | 'traits'> {
  if (typeof provider === 'string') {
    return { provider, binary: typeof binary === 'string' ? [binary] : binary }
  }
  if (binary !== undefined)
    throw invalidOption('binary', `is given twice: ${provider.name} has its program in \`provider.command\``)
  const { name, command, args = [], state = [], modes = {}, reportsUsage = false } = provider
  return {
    provider: name,
    binary: [command, ...args],
    // A slash at its end would mean a folder that is only created.
    traits: {
      state: state.map((path) => path.replace(/\/+$/, '')),
      modes: levels.map((level) => modes[level] ?? ''),
      reportsUsage,
    },
  }
}
