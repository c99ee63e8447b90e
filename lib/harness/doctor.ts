import { abortable, throwIfAborted } from '../abort'
import { callSite } from '../call-site'
import { settle } from '../error'
import { native } from '../native'
import { checkOptions } from '../option'
import { processOptionChecks, type RunOptions } from '../process'
import { agentSpec, type ProviderName } from './request'

/** Options of `doctor`. */
export type DoctorOptions = Pick<RunOptions, 'env' | 'inheritEnv' | 'signal'>

/** State of an agent CLI on this machine. */
export interface Finding {
  /** The agent CLI. */
  provider: ProviderName
  /** True when its program is on PATH. */
  found: boolean
  /** Path of the program. */
  path?: string
  /** Version that the program reports. */
  version?: string
  /** Reason why the CLI cannot be used; absent when it can. */
  problem?: string
  /** Command that installs the CLI. */
  install: string
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
  /** Command that installs the program. */
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
  checkOptions(options, { env, inheritEnv, signal })
  const { signal: wanted } = options
  throwIfAborted(
    wanted,
    'AGENT_ABORTED',
    'the check of the agents was not started: its abort signal was already aborted',
  )
  const spec = agentSpec({ provider: 'codex', env: options.env, inheritEnv: options.inheritEnv })
  const examination = new native.AgentExamination()
  const findings = settle<string>(examination.examine(spec), callSite())
  return JSON.parse(
    await abortable(findings, wanted, 'AGENT_ABORTED', () => examination.abort()),
  ) as Finding[]
}
