import { abortable, throwIfAborted } from '../abort'
import { callSite } from '../call-site'
import { settle } from '../error'
import { native } from '../native'
import { check, checkOptions } from '../option'
import { processOptionChecks, type RunOptions } from '../process/request'
import { checkProvider, type AgentName } from './agent_program'
import { agentSpec, type HarnessOptions } from './request'
import { providerNames } from './provider'

/** Options of `doctor`. */
export interface DoctorOptions extends Pick<RunOptions, 'env' | 'inheritEnv' | 'signal'> {
  /**
   * Agents to check: names of providers, or other agents by their command.
   *
   * @default all agents that this package knows by name
   */
  providers?: readonly HarnessOptions['provider'][]
}

/** State of an agent CLI on this machine. */
export interface Finding {
  /** Name of the agent. */
  provider: AgentName
  /** True when its program is on PATH. */
  found: boolean
  /** Path of the program. */
  path?: string
  /** Version that the program reports; absent for an agent by its command, which may have no such option. */
  version?: string
  /** Reason why the CLI cannot be used; absent when it can. */
  problem?: string
  /** Command that installs the CLI; empty for an agent by its command. */
  install: string
  /** Hosts that the CLI needs for its model and its sign-in, in the form of `sandbox.network.hosts`. */
  hosts: string[]
  /**
   * State of the program that `Harness.open` starts for this agent, which speaks the Agent Client
   * Protocol.
   */
  session: SessionFinding
}

/** State of the program that is needed for sessions with an agent. */
export interface SessionFinding {
  /** True when the program was found. */
  found: boolean
  /** Path of the program. */
  path?: string
  /** Version of the protocol that the program answered with. */
  protocolVersion?: 1 | 2
  /** Reason why no session can be opened; absent when one can. */
  problem?: string
  /** Command that installs the program; empty for an agent by its command. */
  install: string
}

/**
 * Checks which agent CLIs are installed and start. Asks each for its version, and for the version of
 * the session protocol that it speaks. Waits at most 10 seconds for a version and 20 seconds for an
 * answer about the protocol, for two CLIs at a time. Does not check whether you are signed in.
 *
 * @throws AGENT_ABORTED when the signal is aborted; everything that was started is ended.
 *
 * @example
 * for (const { provider, found, problem, install } of await doctor()) console.log(provider, found, problem ?? '', install)
 */
export async function doctor(options: DoctorOptions = {}): Promise<Finding[]> {
  const { env, inheritEnv, signal } = processOptionChecks
  checkOptions(options, { env, inheritEnv, signal, providers: check.listOf(checkProvider) })
  const { signal: wanted, providers = providerNames() } = options
  throwIfAborted(
    wanted,
    'AGENT_ABORTED',
    'the check of the agents was not started: its abort signal was already aborted',
  )
  const specs = providers.map((provider) =>
    agentSpec({ provider, env: options.env, inheritEnv: options.inheritEnv }),
  )
  const examination = new native.AgentExamination()
  const findings = settle<string>(examination.examine(specs), callSite())
  return JSON.parse(
    await abortable(findings, wanted, 'AGENT_ABORTED', () => examination.abort()),
  ) as Finding[]
}
