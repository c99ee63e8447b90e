// The environment of this process: the part that a program inherits, and what it says about the idle timeout.
import type { RunSpec } from '../../native/native'
import { variable, variables } from '../host'
import { warnOnce } from '../warning'

export function inheritance(
  inheritEnv: boolean | readonly string[],
): Pick<RunSpec, 'inheritOnly' | 'inherited'> {
  if (inheritEnv === false) return { inherited: [] }
  const all = variables()
  if (!all) return inheritEnv === true ? {} : { inheritOnly: inheritEnv }
  return { inherited: inheritEnv === true ? all : all.filter(({ name }) => inheritEnv.includes(name)) }
}

/** Variables as they cross to the core. */
export function pairs(record: Record<string, string> = {}): { name: string; value: string }[] {
  return Object.entries(record).map(([name, value]) => ({ name, value }))
}

export function idleTimeoutFromEnvironment(): number | undefined {
  for (const name of ['SHEEPDOG_IDLE_SECONDS', 'AGENTFIELD_HARNESS_IDLE_SECONDS']) {
    const text = variable(name)?.trim()
    // Number('') is 0, which would mean off: an empty value counts as absent.
    // In the environment, where nobody subtracts, less than 0 is off as 0 is.
    if (text && !Number.isNaN(Number(text))) return Math.max(Number(text), 0) * 1000
    if (text) warnOnce(`${name}=${text} is not a number of seconds and is ignored`)
  }
  return undefined
}
