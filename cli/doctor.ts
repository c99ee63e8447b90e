// sheepdog doctor: which agents are here.
import { doctor, type SessionFinding } from '../lib/index'
import { providerNames } from '../lib/harness/provider'
import { parseArguments, UsageError } from './arguments'
import type { Ending, OptionTable } from './command'
import { leaveBy, onInterrupt, type Interrupt } from './interrupt'
import { json, print } from './screen'

export const summary = 'check which agents are installed, and whether they start'

export const forms = ['[options]']

export const about = `
Looks for the CLIs of these agents on PATH: ${providerNames().join(', ')}. Starts each CLI that it finds, asks for its
version and which sessions it can hold, and says how to install the others.`

export const options = {
  json: { type: 'boolean', help: 'print the result as JSON' },
} as const satisfies OptionTable

export const notes = `
Exit status: 0 if at least one agent starts, else 1. Whether you are signed in is not checked.`

export const examples = ['sheepdog doctor']

function describeSession({ protocolVersion, path, problem, install, found }: SessionFinding): string {
  if (protocolVersion !== undefined) return `protocol version ${protocolVersion}, ${path}`
  return `${problem}; ${found ? 'install it again' : 'install it'}: ${install}`
}

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals } = parseArguments(args, options)
  if (positionals.length > 0) throw new UsageError(`${JSON.stringify(positionals[0])} was not expected`)
  const controller = new AbortController()
  let interrupt: Interrupt | undefined
  const leave = onInterrupt((signal) => {
    interrupt = signal
    controller.abort()
  }, leaveBy)
  const findings = await doctor({ signal: controller.signal })
    .catch((error: unknown) => {
      if (!interrupt) throw error
    })
    .finally(leave)
  if (!findings) return interrupt!
  if (values.json) print(json(findings, 2))
  else {
    for (const { provider, version, path, problem, install, found, session } of findings) {
      const words = version
        ? `${version.padEnd(12)} ${path}`
        : `${found ? problem : 'not installed'}; ${found ? 'install it again' : 'install it'}: ${install}`
      print(`${version ? 'ok  ' : '-   '}${provider.padEnd(13)}${words}`)
      if (version !== undefined || session.found) {
        print(`${' '.repeat(17)}sessions: ${describeSession(session)}`)
      }
    }
  }
  return findings.some(({ version }) => version !== undefined) ? 0 : 1
}
