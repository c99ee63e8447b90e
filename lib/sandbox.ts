// Options of a sandbox, checked. The kernel's rules are the core's business (crates/process/src/sandbox).
import { invalidOption } from './error'
import { native } from './native'
import { check, checkOptions, show, type Check } from './option'

/**
 * Limits on files and network for a program and everything that it starts. The kernel enforces them
 * (Landlock and a seccomp filter) until the last process of the tree has ended. If the kernel cannot
 * enforce them, nothing is started and the promise rejects with SANDBOX_UNAVAILABLE.
 *
 * Paths are relative to `cwd` and must exist. A folder stands for everything below it. Inside the
 * sandbox inherited file descriptors are closed, `/dev/null` is writable, and setuid programs gain no
 * rights. Processes outside the tree cannot be signalled or reached through abstract sockets (Linux
 * 6.12 or newer). The limits of the sandbox are listed in docs/sandbox.md.
 *
 * @example
 * await run('npm', ['test'], { sandbox: { write: ['.', '/tmp'], network: 'none' } })
 */
export interface SandboxOptions {
  /**
   * Files and folders in which the program may write, create, rename and remove.
   *
   * @default [] (nothing, except `/dev/null`)
   */
  write?: readonly string[]
  /**
   * Files and folders that the program may read and execute. Everything in `write` may be read too.
   *
   * @default everything
   */
  read?: readonly string[]
  /**
   * `"all"`: no limit. `"none"`: no sockets except Unix sockets. `{ ports }`: TCP connections to these
   * ports, and to port 53 for names (Linux 6.7 or newer). `{ hosts }`: HTTP and TLS to these hosts only, through a proxy that
   * Sheepdog starts for the program. With all but `"all"` there is no UDP, and Unix sockets are limited
   * to `sockets`.
   *
   * @default "all"
   */
  network?:
    | 'all'
    | 'none'
    | {
        /** TCP ports that the program may connect to, from 0 to 65535. */
        ports: readonly number[]
      }
    | {
        /**
         * Hosts that the program may reach: `"api.example.com"` (on the ports 80 and 443), `"*.example.com"` (all names below it),
         * `"api.example.com:8443"`, `"localhost:5432"`. A private address is reached only if it is listed itself.
         * Programs find the proxy by `HTTPS_PROXY` and similar variables; whatever goes past it is refused. Servers of the
         * program's own on this machine are reached directly. docs/egress.md has the limits.
         *
         * For an agent, `"provider"` stands for the hosts that its CLI needs, as `doctor()` lists them: alone, or as
         * an entry of the list.
         *
         * @default [] (no host, except those of `secrets`)
         */
        hosts?: 'provider' | readonly string[]
        /**
         * Secrets that the program uses and never holds, by the names of their environment variables. Each variable
         * holds a placeholder. The proxy puts the secret in its place, in the headers of requests to the secret's own
         * hosts. A placeholder that is seen on the way to another host is refused and reported.
         *
         * @default {}
         */
        secrets?: Record<string, SecretOptions>
      }
  /**
   * Unix sockets that the program may connect to: paths of sockets, or of folders with everything below. They
   * must exist. Unlimited with `network: "all"`.
   *
   * @default the sockets below `write`
   */
  sockets?: readonly string[]
  /** Least versions that the kernel must have. */
  require?: {
    /**
     * Least version of Landlock. With an older one the promise rejects with SANDBOX_UNAVAILABLE and nothing is
     * started. Version 6 (Linux 6.12) limits signals and abstract sockets. `sandboxSupport()` returns the
     * version of this machine.
     *
     * @default any version
     */
    landlock?: number
  }
  /**
   * Files at the top of each folder of `write` that your own tools execute later, outside of the sandbox. They
   * are compared before and after the run. `result.sandbox.changed` lists those that were made, changed or
   * removed; agents list them in `warnings` too.
   *
   * `"report"` leaves them as they are. `"restore"` also puts them back as they were, after the last process of
   * the tree has ended. `result.sandbox.restored` lists those that were put back. Files of more than 16 MB in all
   * are INVALID_OPTION. `"enforce"`, which lets nothing inside change them, is SANDBOX_UNAVAILABLE on every system.
   *
   * The usual names are .git/hooks, .git/config, .git/config.worktree, .git/commondir, .git/info/attributes, .envrc, .mcp.json, .vscode,
   * .claude, .codex, .gemini, .qwen, opencode.json and "package.json scripts" (only that member of the file).
   *
   * @default "report" with the usual names; for codex at "edit", "restore" for those of git
   */
  protect?:
    | 'report'
    | 'restore'
    | 'enforce'
    | {
        /** Paths below each folder of `write` to compare, instead of the usual ones. */
        names: readonly string[]
        /** `"report"`: list the changes. `"restore"`: undo them as well. */
        how: 'report' | 'restore' | 'enforce'
      }
}

/** A secret that a program uses and never holds. */
export interface SecretOptions {
  /** The secret: at least 8 characters of ASCII without spaces. */
  value: string
  /** Hosts that it is sent to, in the form of `hosts`. They may be reached without being in that list. */
  hosts: readonly string[]
  /**
   * The text that the program has instead. No text of another secret may be a part of it, nor the other way round.
   *
   * @default a random text of the same length, with the same beginning (`sk-...`)
   */
  placeholder?: string
}

/** Limits that the kernel enforced during a run. */
export interface SandboxReport {
  /** Version of Landlock that the kernel speaks. */
  landlock: number
  /**
   * Names of the limits: "writes", "reads" (with `read`), "network" (with "none"), "ports" (with `ports`), "hosts" (with `hosts`), "sockets" (not with `network: "all"`), "processes", "privileges", "devices"
   * (Linux 6.10), "signals" and "abstract-sockets" (Linux 6.12).
   */
  holds: string[]
  /** Paths of files that run later, outside, and that the run made, changed or removed (`protect`); at most 100. */
  changed?: string[]
  /** Those of `changed` that were put back as they were (`protect: "restore"`); at most 100. */
  restored?: string[]
  /**
   * Attempts to reach a host or a Unix socket that were refused. 100 targets have a row of their own. All others are counted in
   * one row `"further hosts"` and one row `"further sockets"`.
   */
  refused: RefusedTarget[]
}

/** A target that a sandbox refused. */
export interface RefusedTarget {
  /** `"host"`: a host or an address. `"socket"`: a Unix socket. */
  kind: 'host' | 'socket'
  /** Host and port, address and port, or the path of the socket. */
  what: string
  /** Name of the program that tried first, if it went past the proxy. */
  program?: string
  /** Number of attempts. */
  count: number
}

/** Limits that the kernel of this machine can enforce. */
export interface SandboxSupport {
  /** Version of Landlock that the kernel speaks. 0: a run with `sandbox` rejects with SANDBOX_UNAVAILABLE. */
  landlock: number
  /** Whether Sheepdog can decide about connections of other processes, which `network: { hosts }` and `sockets` need. */
  seccompNotify: boolean
  /** Whether `network: { hosts }` can be enforced. */
  network: boolean
  /** Limits that can be enforced, by the names of `SandboxReport.holds`. */
  holds: string[]
  /** Limits that need a newer kernel, or that the system refuses: then `problem` says why. */
  missing: string[]
  /** The first call that the system refused, with its file and the answer. Absent when nothing was refused. */
  problem?: string
}

/**
 * Returns what a sandbox can enforce on this machine. It is asked by doing it: a guard installs the rules and ends, which takes some
 * milliseconds the first time.
 *
 * @example
 * const { missing } = sandboxSupport()
 * if (missing.includes('signals')) console.warn('programs in a sandbox can signal others: Linux 6.12 holds that')
 */
export function sandboxSupport(): SandboxSupport {
  return JSON.parse(native.sandboxSupport()) as SandboxSupport
}

/** An object that has one of these options at least. */
const hasOneOf = (value: unknown, ...names: string[]): value is object =>
  typeof value === 'object' && value !== null && names.some((name) => name in value)

const networkObject = check.expected('"all", "none", { ports: [...] } or { hosts: [...] }', (value) =>
  hasOneOf(value, 'ports', 'hosts', 'secrets'),
)

const network: Check = (path, value) => {
  if (value === 'all' || value === 'none') return
  networkObject(path, value)
  checkOptions(value, hasOneOf(value, 'hosts', 'secrets') ? { hosts, secrets } : { ports }, path)
}

const secrets: Check = (path, value) => {
  check.object(path, value)
  for (const [name, secret] of Object.entries(value as object)) {
    if (!/^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
      throw invalidOption(path, `expected names of environment variables, got ${show(name)}`)
    const place = `${path}.${name}`
    // The value itself is in no message, wherever it was written.
    if (typeof secret !== 'object' || secret === null || Array.isArray(secret))
      throw invalidOption(place, `expected { value, hosts }, got a ${typeof secret}`)
    const { value: text, hosts: own } = secret as Partial<SecretOptions>
    if (typeof text !== 'string')
      throw invalidOption(`${place}.value`, `expected a string, got ${typeof text}`)
    if (!Array.isArray(own))
      throw invalidOption(`${place}.hosts`, `expected an array of hosts, got ${show(own)}`)
    if (own.length === 0) throw invalidOption(`${place}.hosts`, 'expected at least one host')
    checkOptions(
      { ...(secret as object), value: '' },
      { value: () => {}, hosts, placeholder: check.string },
      place,
    )
  }
}

const hosts: Check = (path, value) => {
  if (value !== 'provider') check.listOf(check.name, 'an array of hosts')(path, value)
}

const ports = check.listOf(check.integer(0, 65_535), 'an array of port numbers')

const protectedNames = check.listOf((path, name) => {
  check.name(path, name)
  if (
    (name as string)
      .replace(/\/+$/, '')
      .split('/')
      .some((part) => ['', '.', '..'].includes(part))
  )
    throw invalidOption(path, `expected a path below the folders of \`write\`, got ${show(name)}`)
}, 'an array of paths')

const protectHow = ['report', 'restore', 'enforce'] as const

const protect: Check = (path, value) => {
  if (typeof value === 'string' && protectHow.some((how) => how === value)) return
  if (typeof value !== 'object' || value === null || !('names' in value) || !('how' in value))
    throw invalidOption(
      path,
      `expected "report", "restore", "enforce" or { names: [...], how: "report" | "restore" | "enforce" }, got ${show(value)}`,
    )
  checkOptions(value, { names: protectedNames, how: check.oneOf(...protectHow) }, path)
}

export const sandboxChecks = {
  write: check.names,
  read: check.names,
  network,
  sockets: check.names,
  require: check.fields({ landlock: check.integer(1, 0xffff_ffff) }),
  protect,
}

/** Checks the option `sandbox` of an agent. */
export function checkAgentSandbox(path: string, value: unknown): void {
  if (value === 'workspace') return
  if (typeof value !== 'object')
    throw invalidOption(path, `expected "workspace" or an object, got ${show(value)}`)
  check.object(path, value)
  checkOptions(value, sandboxChecks, path)
}

/** As it crosses: the workspace has nothing of its user's own. */
export function agentSandbox(sandbox: 'workspace' | SandboxOptions | undefined) {
  return sandbox && (sandbox === 'workspace' ? {} : { custom: sandboxSpec(sandbox) })
}

/** As it crosses: hosts are a list. */
export function sandboxSpec(sandbox: SandboxOptions) {
  const { network, ...rest } = sandbox
  if (typeof network !== 'object' || 'ports' in network) return { ...rest, network }
  const { hosts, secrets } = network
  return { ...rest, network: { hosts: hosts === 'provider' ? [hosts] : hosts, secrets } }
}

/** Checks the option `sandbox` of a program. */
export function checkSandbox(path: string, value: unknown): void {
  checkAgentSandbox(path, value)
  if (value === 'workspace') return
  const { network } = value as SandboxOptions
  const named = typeof network === 'object' && 'hosts' in network ? network.hosts : undefined
  if (named === 'provider' || named?.includes('provider'))
    throw invalidOption(
      `${path}.network.hosts`,
      '"provider" stands for the hosts of an agent: name the hosts',
    )
}
