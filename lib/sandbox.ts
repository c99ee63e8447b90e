// What a program in a sandbox may do, checked. The kernel's rules are the core's business (src/process/sandbox).
import { invalidOption } from './error'
import { check, checkOptions, show } from './option'

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
  write?: string[]
  /**
   * Files and folders that the program may read and execute. Everything in `write` may be read too.
   *
   * @default everything
   */
  read?: string[]
  /**
   * `"all"`: no limit. `"none"`: no sockets except Unix sockets. `{ ports }`: TCP connections to these
   * ports only (Linux 6.7 or newer); UDP is not limited.
   *
   * @default "all"
   */
  network?:
    | 'all'
    | 'none'
    | {
        /** TCP ports that the program may connect to, from 0 to 65535. */
        ports: number[]
      }
}

const paths: (path: string, value: unknown) => void = (path, value) => {
  check.strings(path, value)
  ;(value as string[]).forEach((name, index) => check.name(`${path}[${index}]`, name))
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

const checks = { write: paths, read: paths, network }

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
