// The environment of this process: the part that a program inherits, and what it says about the idle timeout.
import type { RunSpec } from '../../native/native'
import { isMainThread } from 'node:worker_threads'
import { warnOnce } from '../warning'

const ownEnvironment = process.env

/**
 * A worker thread, and a host that replaced `process.env`, have an environment that only JavaScript knows; the main thread's is
 * read natively, which costs a tenth.
 */
export function inheritance(inheritEnv: boolean | readonly string[]): Pick<RunSpec, 'inheritOnly' | 'inherited'> {
  if (inheritEnv === false) return { inherited: [] }
  if (isMainThread && process.env === ownEnvironment)
    return inheritEnv === true ? {} : { inheritOnly: inheritEnv }
  const names = inheritEnv === true ? Object.keys(process.env) : inheritEnv
  return { inherited: names.map((name) => ({ name, value: process.env[name] })) }
}

export function idleTimeoutFromEnvironment(): number | undefined {
  for (const name of ['SHEEPDOG_IDLE_SECONDS', 'AGENTFIELD_HARNESS_IDLE_SECONDS']) {
    const text = process.env[name]?.trim()
    // Number('') is 0, which would mean off: an empty value counts as absent.
    // In the environment, where nobody subtracts, less than 0 is off as 0 is.
    if (text && !Number.isNaN(Number(text))) return Math.max(Number(text), 0) * 1000
    if (text) warnOnce(`${name}=${text} is not a number of seconds and is ignored`)
  }
  return undefined
}
