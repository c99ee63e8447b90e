// What a program in a sandbox may do, checked. The kernel's rules are the core's business (src/process/sandbox).
import { invalidOption } from './error'
import { native } from './native'
import { check, checkOptions, show } from './option'

/**
 * What a program and everything it starts may do, held by the kernel (Landlock, and a filter of system calls) until the last
 * of them has ended. Paths are relative to `cwd`, must exist, and stand for a folder with all below it. Inherited descriptors
 * are closed, `/dev/null` is writable, no program inside gains rights by being setuid; processes outside the tree can't be
 * signalled nor reached by abstract sockets (Linux 6.12). docs/sandbox.md says what is not held.
 */
export interface SandboxOptions {
  /** What may be written, made, renamed and removed; default nothing. */
  write?: string[]
  /** What may be read and executed; default everything. What may be written may be read. */
  read?: string[]
  /** Default "all". "none": no sockets but Unix ones. `ports`: TCP connections go to these ports alone (Linux 6.7); UDP is free. */
  network?: 'all' | 'none' | { ports: number[] }
  /**
   * What the kernel has to have. `landlock`: at least this version of Landlock, or the run fails with SANDBOX_UNAVAILABLE and nothing
   * is started. Version 6 (Linux 6.12) holds signals and abstract sockets. `sandboxSupport()` tells the version of this machine.
   */
  require?: { landlock?: number }
  /**
   * Files at the top of each folder of `write` that your own tools execute later, outside of the sandbox. They are compared before and
   * after the run; `result.sandbox.changed` names those that were made, changed or removed, and for agents `warnings` as well.
   *
   * @default "report", with the names .git/hooks, .git/config, .envrc, .mcp.json, .vscode, .claude, .codex, .gemini, .qwen, opencode.json
   * and "package.json scripts" (that member of the file alone)
   */
  protect?: 'report' | { names: string[]; how: 'report' }
}

/** What held the sandbox of a run. */
export interface SandboxReport {
  /** The version of Landlock that the kernel speaks. */
  landlock: number
  /**
   * What was held: "writes", "reads" (with `read`), "network" (with "none"), "ports" (with `ports`), "processes", "privileges", "devices"
   * (Linux 6.10), "signals" and "abstract-sockets" (Linux 6.12).
   */
  holds: string[]
  /** Paths of files that run later, outside, and that the run made, changed or removed (`protect`); at most 100. */
  changed?: string[]
}

/** What a sandbox could hold on this machine. */
export interface SandboxSupport {
  /** The version of Landlock that the kernel speaks. 0: `sandbox` is SANDBOX_UNAVAILABLE. */
  landlock: number
  /** Whether the kernel lets another process decide about system calls. */
  seccompNotify: boolean
  /** Whether `network: { ports }` can be held. */
  network: boolean
  /** What can be held, in the words of `SandboxReport.holds`. */
  holds: string[]
  /** What a newer kernel would hold as well. */
  missing: string[]
}

/**
 * Tells what a sandbox could hold on this machine. Nothing is started.
 *
 * @example
 * const { missing } = sandboxSupport()
 * if (missing.includes('signals')) console.warn('programs in a sandbox can signal others: Linux 6.12 holds that')
 */
export function sandboxSupport(): SandboxSupport {
  return JSON.parse(native.sandboxSupport()) as SandboxSupport
}

const isPort = (value: unknown) =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 65_535

const expectedNetwork = '"all", "none" or { ports: [...] }'

const network: (path: string, value: unknown) => void = (path, value) => {
  if (value === 'all' || value === 'none') return
  if (typeof value !== 'object' || value === null || !('ports' in value))
    throw invalidOption(path, `expected ${expectedNetwork}, got ${show(value)}`)
  checkOptions(value, { ports }, path)
}

const ports: (path: string, value: unknown) => void = (path, value) => {
  if (!Array.isArray(value))
    throw invalidOption(path, `expected an array of port numbers, got ${show(value)}`)
  value.forEach((one, index) => {
    if (!isPort(one))
      throw invalidOption(`${path}[${index}]`, `expected an integer from 0 to 65535, got ${show(one)}`)
  })
}

const required: (path: string, value: unknown) => void = (path, value) =>
  checkOptions(value, { landlock: check.countUpTo(0xffff_ffff) }, path)

const protect: (path: string, value: unknown) => void = (path, value) => {
  if (value === 'report') return
  if (typeof value !== 'object' || value === null || !('names' in value) || !('how' in value))
    throw invalidOption(path, `expected "report" or { names: [...], how: "report" }, got ${show(value)}`)
  checkOptions(value, { names: check.names, how: check.oneOf('report') }, path)
}

const checks = { write: check.names, read: check.names, network, require: required, protect }

/** Checks the option `sandbox` of an agent. */
export function checkAgentSandbox(path: string, value: unknown): void {
  if (value === 'workspace') return
  if (typeof value === 'string')
    throw invalidOption(path, `expected "workspace" or an object, got ${show(value)}`)
  checkSandbox(path, value)
}

/** As it crosses: the workspace has nothing of its user's own. */
export function agentSandbox(sandbox: 'workspace' | SandboxOptions | undefined) {
  return sandbox && (sandbox === 'workspace' ? {} : { custom: sandbox })
}

/** Checks the option `sandbox`. */
export function checkSandbox(path: string, value: unknown): void {
  check.object(path, value)
  checkOptions(value, checks, path)
}
