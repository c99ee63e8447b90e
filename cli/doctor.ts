// sheepdog doctor: which agents are here.
import { doctor } from '../lib/index'
import { providerNames } from '../lib/harness/provider'
import { parseArguments, UsageError } from './arguments'
import { onInterrupt } from './interrupt'

export const summary = 'which agents are installed, and whether they start'

export const usage = `Usage: sheepdog doctor [options]

Looks for the CLIs of these agents on PATH, starts each that is there to ask its version, and says how
to install the others: ${providerNames().join(', ')}.

Options:
  --json       print the findings as JSON
  -h, --help   show this

Exit status: 0 if at least one agent starts, else 1.
`

export async function run(args: string[]): Promise<number> {
  const { values, positionals } = parseArguments(args, { json: { type: 'boolean' } })
  if (positionals.length > 0) throw new UsageError(`${JSON.stringify(positionals[0])} was not expected`)
  const controller = new AbortController()
  const leave = onInterrupt(
    () => controller.abort(),
    () => process.exit(1),
  )
  const findings = await doctor({ signal: controller.signal }).finally(leave)
  if (values.json) process.stdout.write(`${JSON.stringify(findings, null, 2)}\n`)
  else {
    for (const { provider, version, path, problem, install, found } of findings) {
      const words = version
        ? `${version.padEnd(12)} ${path}`
        : `${found ? problem : 'not installed'}; ${found ? 'install it anew' : 'install it'}: ${install}`
      process.stdout.write(`${version ? 'ok  ' : '-   '}${provider.padEnd(13)}${words}\n`)
    }
  }
  return findings.some(({ version }) => version !== undefined) ? 0 : 1
}
