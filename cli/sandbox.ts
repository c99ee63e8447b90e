// The options of a sandbox on a command line.
import type { SandboxOptions } from '../lib/sandbox'
import { UsageError } from './arguments'
import type { OptionTable } from './command'

export const sandboxOptions = {
  sandbox: {
    type: 'boolean',
    help: 'the kernel lets it and its descendants write only to /dev/null',
  },
  write: {
    type: 'string',
    multiple: true,
    value: 'PATH',
    fits: 'file',
    help: '... and below PATH; may be repeated; implies --sandbox',
  },
  network: {
    type: 'string',
    value: 'NAME',
    fits: ['all', 'none'],
    help: '"none": no network; or ports, such as 443,8080; implies --sandbox',
  },
  socket: {
    type: 'string',
    multiple: true,
    value: 'PATH',
    fits: 'file',
    help: 'with --network or --host: a Unix socket that it may connect to; may be repeated; implies --sandbox',
  },
} as const satisfies OptionTable

/** Not of `serve`, whose `--host` is its own address. */
export const hostOptions = {
  host: {
    type: 'string',
    multiple: true,
    value: 'NAME',
    help: 'a host that it may reach, such as api.example.com or *.example.com, and no other; may be repeated; implies --sandbox',
  },
} as const satisfies OptionTable

/** The same for an agent, whose sandbox is its workspace at least; `undefined`: none is asked for. */
export function toAgentSandbox(values: {
  sandbox?: boolean
  write?: string[]
  network?: string
  socket?: string[]
  host?: string | string[]
}): 'workspace' | SandboxOptions | undefined {
  const sandbox = toSandbox(values)
  if (!sandbox) return undefined
  const { write, network, socket, host } = values
  if (!write && network === undefined && !socket && !Array.isArray(host)) return 'workspace'
  return { ...sandbox, write: ['.', ...(sandbox.write ?? [])] }
}

/** `--sandbox workspace` says no more than `--sandbox`: the word is taken away, so that it is no part of a prompt. */
export function withoutWorkspace(args: string[]): string[] {
  const isWord = (word: string, index: number) => word === 'workspace' && args[index - 1] === '--sandbox'
  return args
    .filter((word, index) => !isWord(word, index))
    .map((word) => (word === '--sandbox=workspace' ? '--sandbox' : word))
}

/** Options that say what an agent may do, and what holds it. */
export const levelOptions = {
  permission: {
    type: 'string',
    value: 'LEVEL',
    fits: ['plan', 'edit', 'auto'],
    help: 'permission level: plan (read), edit (also write in its folder; the default) or auto (everything)',
  },
  allow: {
    type: 'string',
    multiple: true,
    value: 'GLOB',
    help: 'a command that it may run at edit, such as "npm test"; may be repeated',
  },
  ...sandboxOptions,
  sandbox: {
    type: 'boolean',
    help: 'the kernel lets it write only in its folder and in the state of its CLI',
  },
} as const satisfies OptionTable

/** `undefined`: none is asked for. */
export function toSandbox(values: {
  sandbox?: boolean
  write?: string[]
  network?: string
  socket?: string[]
  host?: string | string[]
}): SandboxOptions | undefined {
  const { write, network, socket } = values
  // `serve` has another option of this name.
  const host = Array.isArray(values.host) ? values.host : undefined
  if (!values.sandbox && !write && network === undefined && !socket && !host) return undefined
  if (host && network !== undefined)
    throw new UsageError('--network: cannot be combined with --host, which allows these hosts only')
  return { write: write ?? [], network: host ? { hosts: host } : toNetwork(network), sockets: socket }
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
