// The options of a sandbox on a command line.
import type { SandboxOptions } from '../lib/sandbox'
import { UsageError } from './arguments'
import type { OptionTable } from './command'

export const sandboxOptions = {
  sandbox: {
    type: 'boolean',
    help: 'it and all it starts write nowhere but to /dev/null; the kernel holds that',
  },
  write: {
    type: 'string',
    multiple: true,
    value: 'PATH',
    fits: 'file',
    help: '... and below PATH (may be given again); implies --sandbox',
  },
  network: {
    type: 'string',
    value: 'NAME',
    fits: ['all', 'none'],
    help: '"none": ... and reach no network; or ports: 443,8080; implies --sandbox',
  },
} as const satisfies OptionTable

/** `undefined`: none is asked for. */
export function toSandbox(values: {
  sandbox?: boolean
  write?: string[]
  network?: string
}): SandboxOptions | undefined {
  if (!values.sandbox && !values.write && values.network === undefined) return undefined
  return { write: values.write ?? [], network: toNetwork(values.network) }
}

function toNetwork(text = 'all'): SandboxOptions['network'] {
  if (text === 'all' || text === 'none') return text
  const ports = text.split(',').map(Number)
  if (!/^[\d,]+$/.test(text) || ports.some((port) => port > 65_535)) {
    throw new UsageError(
      `--network: expected all, none or ports such as 443,8080, got ${JSON.stringify(text)}`,
    )
  }
  return { ports }
}
