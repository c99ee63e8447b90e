// The options of a sandbox on a command line.
import type { SandboxOptions } from '../lib/index'
import { variable } from '../lib/host'
import { type ParsedArguments, UsageError } from './arguments'
import { counted, type OptionTable, flag, several, setting } from './command'

export const sandboxOptions = {
  sandbox: flag('the kernel lets it and its descendants write only to /dev/null'),
  write: several('PATH', '... and below PATH; may be repeated; implies --sandbox', 'file'),
  read: several(
    'PATH',
    'let it read only below PATH and what it may write; most programs also need /usr, /bin, /lib, /lib64, /etc, /proc and /dev; may be repeated; implies --sandbox',
    'file',
  ),
  network: setting('NAME', '"none": no network; or ports, such as 443,8080; implies --sandbox', [
    'all',
    'none',
  ]),
  socket: several(
    'PATH',
    'with --network or --host: a Unix socket that it may connect to; may be repeated; implies --sandbox',
    'file',
  ),
  protect: setting(
    'WORD',
    'changes of files that your own tools run later, such as .git/hooks and .envrc: report them (the default), or restore the files; implies --sandbox',
    ['report', 'restore'],
  ),
  landlock: counted('start nothing where the kernel has an older version of Landlock; implies --sandbox'),
} as const satisfies OptionTable

/** `serve` has `--agent-host` instead, because its `--host` is its own address. */
export const hostOptions = {
  host: several(
    'NAME',
    'a host that it may reach, such as api.example.com or *.example.com, and no other; may be repeated; implies --sandbox',
  ),
  secret: several(
    'NAME@HOST',
    'keep the value of the variable NAME from it: it is put into requests to HOST on their way; may be repeated; implies --sandbox',
  ),
} as const satisfies OptionTable

type SandboxValues = ParsedArguments<typeof levelOptions & typeof hostOptions>['values'] & { plan?: boolean }

/** Whether more is asked for than `--sandbox` alone. */
const hasMore = ({ write, read, network, socket, host, secret, protect, landlock }: SandboxValues) =>
  [write, read, network, socket, host, secret, protect, landlock].some((value) => value !== undefined)

/** The same for an agent, whose sandbox is its workspace at least; `undefined`: none is asked for. */
export function toAgentSandbox(values: SandboxValues): 'workspace' | SandboxOptions | undefined {
  const sandbox = toSandbox(values)
  if (!sandbox) return undefined
  if (!hasMore(values)) return 'workspace'
  // As `"workspace"` does, a sandbox with further limits leaves the folder alone at the level "plan".
  const own = values.plan || values.permission === 'plan' ? [] : ['.']
  return { ...sandbox, write: [...own, ...(sandbox.write ?? [])] }
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
  permission: setting(
    'LEVEL',
    'permission level: plan (read), edit (also write in its folder; the default) or auto (everything)',
    ['plan', 'edit', 'auto'],
  ),
  allow: several('GLOB', 'a command that it may run at edit, such as "npm test"; may be repeated'),
  ...sandboxOptions,
  sandbox: flag('the kernel lets it write only in its folder and in the state of its CLI'),
} as const satisfies OptionTable

/** `undefined`: none is asked for. */
export function toSandbox(values: SandboxValues): SandboxOptions | undefined {
  const { write, read, network, socket, host, secret, protect, landlock } = values
  if (!values.sandbox && !hasMore(values)) return undefined
  if ((host || secret) && network !== undefined)
    throw new UsageError(
      `--network: cannot be combined with ${host ? '--host' : '--secret'}, which allows these hosts only`,
    )
  const hosts = host || secret ? { hosts: host ?? [], secrets: toSecrets(secret) } : undefined
  return {
    write: write ?? [],
    read,
    network: hosts ?? toNetwork(network),
    sockets: socket,
    protect: protect as SandboxOptions['protect'],
    require: landlock === undefined ? undefined : { landlock },
  }
}

type Network = Extract<SandboxOptions['network'], { secrets?: unknown }>
type Secrets = NonNullable<Network['secrets']>

/** NAME@HOST, where a name with several hosts is repeated. */
function toSecrets(list: string[] = []): Secrets {
  const secrets: Secrets = {}
  for (const text of list) {
    const at = text.indexOf('@')
    const [name, host] = [text.slice(0, at), text.slice(at + 1)]
    if (at < 1 || host === '')
      throw new UsageError(`--secret: expected NAME@HOST, such as OPENAI_API_KEY@api.openai.com`)
    const value = variable(name)
    if (!value) throw new UsageError(`--secret: the variable ${name} is not set`)
    secrets[name] = { value, hosts: [...(secrets[name]?.hosts ?? []), host] }
  }
  return secrets
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
