import { abortable, throwIfAborted } from '../abort'
import { callSite } from '../call-site'
import { settle } from '../error'
import { native } from '../native'
import { checkOptions } from '../option'
import { processOptionChecks, type RunOptions } from '../process'
import { agentSpec, type ProviderName } from './request'

export type DoctorOptions = Pick<RunOptions, 'env' | 'inheritEnv' | 'signal'>

/** What was found of one agent. */
export interface Finding {
  provider: ProviderName
  found: boolean
  /** The program on PATH. */
  path?: string
  version?: string
  /** Why it can't be used, if so. */
  problem?: string
  /** The command that installs it. */
  install: string
  /** The program that speaks the Agent Client Protocol for it, which `Harness.open` starts. */
  session: SessionFinding
}

/** What was found of the program that sessions with an agent need. */
export interface SessionFinding {
  found: boolean
  path?: string
  /** Which version of the protocol it answered with. */
  protocolVersion?: 1 | 2
  /** Why no session can be opened, if so. */
  problem?: string
  /** The command that installs it. */
  install: string
}

/**
 * Which agents are installed, and whether they start: each that is found is asked for its version, and for the version of the
 * protocol of sessions that it speaks. An abort ends what was started, then rejects with AGENT_ABORTED.
 */
export async function doctor(options: DoctorOptions = {}): Promise<Finding[]> {
  const { env, inheritEnv, signal } = processOptionChecks
  checkOptions(options, { env, inheritEnv, signal })
  const { signal: wanted } = options
  throwIfAborted(
    wanted,
    'AGENT_ABORTED',
    'the examination was not begun: its abort signal was already aborted',
  )
  const spec = agentSpec({ provider: 'codex', env: options.env, inheritEnv: options.inheritEnv })
  const examination = new native.AgentExamination()
  const findings = settle<string>(examination.examine(spec), callSite())
  return JSON.parse(
    await abortable(findings, wanted, 'AGENT_ABORTED', () => examination.abort()),
  ) as Finding[]
}
