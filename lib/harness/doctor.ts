import { SheepdogError, settle } from '../error'
import { checkOptions } from '../option'
import { processOptionChecks, type RunOptions } from '../process'
import { host } from './host'
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

/** Which agents are installed, and whether they start: each that is found is asked for its version. */
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
  const findings = settle<string>(host.examine(spec)).then((text) => JSON.parse(text) as Finding[])
  if (!options.signal) return findings
  let onAbort: (() => void) | undefined
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(stopped())
    options.signal!.addEventListener('abort', onAbort, { once: true })
  })
  try {
    // What was started ends by itself within its own time limit.
    return await Promise.race([findings, aborted])
  } finally {
    options.signal.removeEventListener('abort', onAbort!)
  }
}
