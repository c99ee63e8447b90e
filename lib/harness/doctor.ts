import { SheepdogError, settle } from '../error'
import { native } from '../native'
import { checkOptions } from '../option'
import { processOptionChecks, type RunOptions } from '../process'
import { toSpec, type ProviderName } from './request'

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
}

/**
 * Which agents are installed, and whether they start: each that is found is asked for its version. An abort ends what was
 * started, then rejects with AGENT_ABORTED.
 */
export async function doctor(options: DoctorOptions = {}): Promise<Finding[]> {
  const { env, inheritEnv, signal } = processOptionChecks
  checkOptions(options, { env, inheritEnv, signal })
  const stopped = () =>
    new SheepdogError('AGENT_ABORTED', 'the examination was aborted', {}, options.signal?.reason)
  if (options.signal?.aborted) throw stopped()
  const spec = toSpec(
    'version',
    { provider: 'codex', env: options.env, inheritEnv: options.inheritEnv },
    false,
  )
  const examination = new native.AgentExamination()
  const onAbort = () => examination.abort()
  options.signal?.addEventListener('abort', onAbort, { once: true })
  try {
    return JSON.parse(await settle<string>(examination.examine(spec))) as Finding[]
  } catch (error) {
    throw options.signal?.aborted ? stopped() : error
  } finally {
    // This use of it also keeps the examination from being collected, which would abort it.
    options.signal?.removeEventListener('abort', onAbort)
  }
}
