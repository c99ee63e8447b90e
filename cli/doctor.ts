// sheepdog doctor: which agents are here.
import { readFileSync, readdirSync, statSync } from 'node:fs'
import { doctor, sandboxSupport, type Finding, type ProviderName, type SessionFinding } from '../lib/index'
import { providerNames } from '../lib/harness/provider'
import { environment, home } from '../lib/host'
import { agentOf } from './agent_command'
import { parseArguments, UsageError } from './arguments'
import { type Ending, type OptionTable, flag } from './command'
import { leaveBy, onInterrupt } from './interrupt'
import { json, print } from './screen'
import { places, signInOf, type SignIn } from './sign_in'

export const summary = 'check which agents are installed, and whether they start'

export const forms = ['[options]', '[options] -- COMMAND [ARGUMENTS]']

export const about = `
Looks for the CLIs of these agents on PATH: ${providerNames().join(', ')}. Starts each CLI that it finds, asks for its
version and which sessions it can hold, and says how to install the others. Looks for a key or a stored sign-in of each, and
calls no model.

A COMMAND is any other agent: it is started, and asked whether it speaks the Agent Client Protocol.`

export const options = {
  json: flag('print the result as JSON'),
} as const satisfies OptionTable

export const notes = `
Exit status: 0 if at least one agent starts, 2 for a wrong command line, else 1. Whether a key is valid is not checked, and a keychain of the system is
not looked into.`

export const examples = ['sheepdog doctor']

function describeSession({ protocolVersion, path, problem, install, found }: SessionFinding): string {
  if (protocolVersion !== undefined) return `protocol version ${protocolVersion}, ${path}`
  return `${problem}; ${found ? 'install it again' : 'install it'}: ${install}`
}

function describeSignIn({ by, lookedFor, how }: SignIn): string {
  return by === undefined
    ? `none found in ${lookedFor.join(', ')}; to sign in: ${how}`
    : `found in ${by}; whether it is valid is not checked`
}

/** Limits of a sandbox on this machine: what a run is refused for is said here, too. */
function describeSandbox(): string {
  const { holds, missing, problem } = sandboxSupport()
  if (holds.length === 0) return `-   sandbox      not possible here: ${problem ?? 'Landlock is missing'}`
  const lack = missing.length > 0 ? `; missing: ${missing.join(', ')}${problem ? ` (${problem})` : ''}` : ''
  return `ok  sandbox      ${holds.join(', ')}${lack}`
}

/** Nothing else of a file that may hold keys is kept. */
function holds(path: string, sign?: string): boolean {
  try {
    const facts = statSync(path)
    if (facts.isDirectory()) return readdirSync(path).length > 0
    if (!facts.isFile()) return false
    const text = readFileSync(path, 'utf8')
    // An empty object of JSON is what some CLIs begin with.
    return sign === undefined ? text.trim().length > 2 : text.includes(sign)
  } catch {
    return false
  }
}

/** An agent by its command: how it signs in, and which version it has, only its own documentation says. */
function describeOther(finding: Finding, asJson: boolean): Ending {
  const { provider, session } = finding
  const works = session.protocolVersion !== undefined
  const words = works ? describeSession(session) : (session.problem ?? finding.problem)
  print(asJson ? json(finding, 2) : `${works ? 'ok  ' : '-   '}${provider.padEnd(13)}${words}`)
  return works ? 0 : 1
}

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals, command } = parseArguments(args, options)
  const providers = command?.length ? [agentOf(command)] : undefined
  if (positionals.length > 0) throw new UsageError(`${JSON.stringify(positionals[0])} was not expected`)
  const controller = new AbortController()
  const interrupt = onInterrupt(() => controller.abort(), leaveBy)
  const findings = await doctor({ signal: controller.signal, providers })
    .catch((error: unknown) => {
      if (!interrupt.signal) throw error
    })
    .finally(() => interrupt.end())
  if (!findings) return interrupt.signal!
  if (providers) return describeOther(findings[0]!, values.json ?? false)
  const all = findings.map((finding) => {
    const place = places[finding.provider as ProviderName]
    return {
      ...finding,
      testedVersion: place.tested,
      signIn: signInOf(place, environment(), home() ?? '/(home unknown)', holds),
    }
  })
  if (values.json) print(json(all, 2))
  else {
    for (const one of all) {
      const { testedVersion, signIn, provider, version, path, problem, install, found, session, hosts } = one
      const words = version
        ? `${version.padEnd(12)} ${path}${version === testedVersion ? '' : ` (tested with ${testedVersion})`}`
        : `${found ? problem : 'not installed'}; ${found ? 'install it again' : 'install it'}: ${install}`
      print(`${version ? 'ok  ' : '-   '}${provider.padEnd(13)}${words}`)
      if (version !== undefined || session.found) {
        print(`${' '.repeat(17)}sessions: ${describeSession(session)}`)
      }
      if (version !== undefined) {
        print(`${' '.repeat(17)}sign-in: ${describeSignIn(signIn)}`)
        print(`${' '.repeat(17)}hosts: ${hosts.join(', ')}`)
      }
    }
  }
  if (!values.json) print(describeSandbox())
  return findings.some(({ version }) => version !== undefined) ? 0 : 1
}
