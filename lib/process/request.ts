// What a program is run with: types and their checks. What a value means, and its default, is the core's business.
import type { RunSpec } from '../../native/native'
import type { Readable } from 'node:stream'
import { createReadStream } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { types } from 'node:util'
import { isMainThread } from 'node:worker_threads'
import { invalidOption } from '../error'
import { checkLimit, type ConcurrencyLimit } from '../limit'
import { check, checkOptions, show } from '../option'
import { checkSandbox, type SandboxOptions } from '../sandbox'
import { warnOnce } from '../warning'
import { sourceOf, type Source } from './input'

/** What is written to stdin: text and bytes, now or as they come, or a file that the program is given as its stdin. */
export type RunInput =
  | string
  | Uint8Array
  | ReadableStream
  | Readable
  | AsyncIterable<string | Uint8Array>
  | Iterable<string | Uint8Array>
  | { file: string | URL }

/** How a program is run and watched. Every `*TimeoutMs` takes any number: 0 and Infinity mean off, less than 0 has passed: nothing is started. */
export interface RunOptions {
  /** Working directory, a path or a file: URL; default the host's own. */
  cwd?: string | URL
  /** Merged over the inherited environment; `undefined` removes a name. */
  env?: Record<string, string | undefined>
  /** Default true; a list inherits only these names. */
  inheritEnv?: boolean | string[]
  /**
   * Written to stdin, then closed; a program that does not read it all is no error. Default: stdin is null. A stream or an
   * iterable is read when the program runs, no faster than the program reads, and closed (`return()`, cancelled) when the program
   * ends first; one that fails ends the run: PROCESS_INPUT_FAILED, with its error as `cause`. A file is relative to `cwd`.
   */
  input?: RunInput
  /**
   * No byte read from stdout or stderr, nor accepted by stdin, for so long: the tree is killed at once. Rests while a slow
   * reader holds the pipe. Default: env SHEEPDOG_IDLE_SECONDS, else AGENTFIELD_HARNESS_IDLE_SECONDS, else 120 s.
   */
  idleTimeoutMs?: number
  /** Wall clock; default 1_800_000. */
  timeoutMs?: number
  /** SIGTERM to the group on timeout, abort and kill(), SIGKILL to the tree after so long; default 2000. */
  killGraceMs?: number
  /** After the exit, how long pipes held open by others are still read; default 250. */
  drainMs?: number
  /** Kept of each stream: head and tail on line borders, one line between that says how much is missing. Default 16 MiB, at most 511. */
  maxOutputBytes?: number
  /** Longest line given to an iterator; a longer one is PROCESS_LINE_TOO_LONG and the tree is killed. Default 64 MiB, at most 511. */
  maxLineBytes?: number
  /**
   * "pipe", for `spawn` alone: the process has a `stdin` to write to. "inherit": the host's own. Default "null": immediate end of
   * file; or what `input` says.
   */
  stdin?: 'null' | 'pipe' | 'inherit'
  /** The host's own stdin, stdout and stderr: nothing is read or kept, and the idle clock is off. */
  stdio?: 'inherit'
  /** Of the result's stdout and stderr; default "utf8", in which invalid UTF-8 is replaced. "buffer": bytes, as they came. */
  encoding?: 'utf8' | 'buffer'
  /**
   * A terminal of the program's own, for programs that hold their output back or refuse to work without one. stdout is what it
   * shows, stderr is empty. Default size 80 x 24; `resize()` changes it. The input is typed, and shown as typed text is; without
   * input, and after its end, the program reads end of file.
   */
  pty?: boolean | { columns?: number; rows?: number }
  /** Descendants that outlive the command; default "kill". */
  strays?: 'kill' | 'keep'
  /** Default "auto": the strongest that needs no privilege. "strict": a PID namespace, or CONTAINMENT_UNAVAILABLE. */
  containment?: 'auto' | 'group' | 'strict'
  /** Memory of the whole tree; needs a writable cgroup, else CONTAINMENT_UNAVAILABLE. */
  memoryMaxBytes?: number
  /** Processes of the whole tree; needs a writable cgroup, else CONTAINMENT_UNAVAILABLE. */
  maxProcesses?: number
  /** What the program and all it starts may do, held by the kernel; or SANDBOX_UNAVAILABLE, and nothing is started. */
  sandbox?: SandboxOptions
  /**
   * A folder: a new one in it keeps what ran, all it printed with times, and how it ended (docs/record.md). Written off the JavaScript
   * thread, whole to a quarter of a second before a kill of this process. INVALID_OPTION when it can't be written.
   */
  record?: string
  /** The most that a record keeps of each stream; past it the end alone. Default 256 MiB. */
  maxRecordBytes?: number
  /** What people call it, in `sheepdog ps` and in its record. */
  name?: string
  /** Shared with others: the program is started when there is room, and the slot is free when its tree is gone. The clocks start with the program. */
  limit?: ConcurrencyLimit
  /** Stops the run when aborted; one that is already aborted starts nothing. */
  signal?: AbortSignal
}

/** A string of JavaScript holds no more, and a little room is left (src/binding/process.rs). */
const MAX_TEXT_BYTES = 511 * 2 ** 20

/** A terminal's columns and rows. */
export const sizeChecks = { columns: check.countUpTo(65_535), rows: check.countUpTo(65_535) }

/** The checks of the options that runs, turns and sessions share. */
export const processOptionChecks = {
  cwd(path: string, value: unknown) {
    if (isUrl(value)) toPath(path, value)
    else check.name(path, value)
  },
  env: check.record,
  inheritEnv: check.anyOf('a boolean or an array of strings', check.boolean, check.strings),
  input(path: string, value: unknown) {
    // Bytes of another realm (vm, jest) too.
    if (typeof value === 'string' || types.isUint8Array(value) || sourceOf(path, value)) return
    if (!isFile(value)) {
      const expected = 'a string, a Uint8Array, a stream, an iterable or { file }'
      throw invalidOption(path, `expected ${expected}, got ${show(value)}`)
    }
    checkOptions(value, { file: processOptionChecks.cwd }, path)
  },
  idleTimeoutMs: check.timeout,
  timeoutMs: check.timeout,
  killGraceMs: check.duration,
  drainMs: check.duration,
  maxOutputBytes: check.countUpTo(MAX_TEXT_BYTES),
  maxLineBytes: check.countUpTo(MAX_TEXT_BYTES),
  stdin: check.oneOf('null', 'pipe', 'inherit'),
  stdio(path: string, value: unknown) {
    if (value === 'inherit') return
    const instead = 'what a program prints is read anyway, and `stdin: "pipe"` makes its stdin writable'
    throw invalidOption(path, `expected "inherit", got ${show(value)}: ${instead}`)
  },
  encoding: check.oneOf('utf8', 'buffer'),
  pty(path: string, value: unknown) {
    if (typeof value === 'boolean') return
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      throw invalidOption(path, `expected a boolean or { columns, rows }, got ${show(value)}`)
    checkOptions(value, sizeChecks, path)
  },
  /** Of other libraries: what there is in their place. */
  shell(path: string) {
    throw invalidOption(
      path,
      "no such option: to have a shell read the command, run it as run('sh', ['-c', command])",
    )
  },
  strays: check.oneOf('kill', 'keep'),
  containment: check.oneOf('auto', 'group', 'strict'),
  memoryMaxBytes: check.count,
  maxProcesses: check.count,
  sandbox: checkSandbox,
  record: check.name,
  maxRecordBytes: check.count,
  name: check.name,
  limit: checkLimit,
  signal: check.signal,
}

/** What a call says: the options may stand in the place of the arguments. */
export interface Call {
  command: string
  args: string[]
  options: RunOptions
}

export function callOf(command: unknown, args: unknown, options: unknown): Call {
  // An array, and what is none of both, is checked as arguments.
  const onlyOptions =
    options === undefined && typeof args === 'object' && args !== null && !Array.isArray(args)
  const given = onlyOptions ? args : options
  const list = onlyOptions ? undefined : args
  checkOptions(given, processOptionChecks)
  check.name('command', command)
  if (list !== undefined) check.strings('args', list)
  return {
    command: command as string,
    args: (list as string[] | undefined) ?? [],
    options: (given as RunOptions | undefined) ?? {},
  }
}

/** What can't be had together. */
function checkTogether({ input, stdin, stdio, pty }: RunOptions, canBeWritten: boolean): void {
  const instead = 'its stdin is the host\'s own with `stdio: "inherit"`'
  if (stdio && input !== undefined) throw invalidOption('input', `can't be had: ${instead}`)
  if (stdio && stdin && stdin !== 'inherit') throw invalidOption('stdin', `can't be "${stdin}": ${instead}`)
  if (stdio && pty) throw invalidOption('pty', 'can\'t be had together with `stdio: "inherit"`')
  if (stdin && input !== undefined)
    throw invalidOption('stdin', `can't be "${stdin}": it is what \`input\` says`)
  if (pty && stdin === 'inherit')
    throw invalidOption('stdin', 'can\'t be "inherit": with `pty` it is the terminal; "pipe" types into it')
  if (stdin === 'pipe' && !canBeWritten)
    throw invalidOption('stdin', '"pipe" is for spawn(), whose process has a `stdin`; run() takes `input`')
}

/** @param canBeWritten somebody has the process, and so its stdin */
export function toSpec(
  { command, args, options }: Call,
  canBeWritten: boolean,
): { spec: RunSpec; source?: Source } {
  checkTogether(options, canBeWritten)
  const {
    cwd,
    env = {},
    inheritEnv = true,
    idleTimeoutMs,
    input,
    stdin,
    stdio,
    pty,
    limit,
    signal,
    ...rest
  } = options
  const changes = Object.entries(env).map(([name, value]) => {
    const path = `env[${JSON.stringify(name)}]`
    if (name === '' || /[=\0]/.test(name)) {
      throw invalidOption(path, 'a variable\'s name is not empty and has neither "=" nor NUL')
    }
    if (value !== undefined) check.string(path, value)
    return { name, value }
  })
  const folder = absolute(cwd)
  const { source, ...fed } = toFed(input, folder, !!pty)
  const spec: RunSpec = {
    ...rest,
    ...fed,
    ...(stdin && stdin !== 'null' ? { stdin } : {}),
    command,
    args,
    cwd: folder,
    env: changes,
    inheritStdio: stdio === 'inherit',
    terminal: pty === true ? {} : pty || undefined,
    idleTimeoutMs: idleTimeoutMs ?? idleTimeoutFromEnvironment(),
    ...inheritance(inheritEnv),
  }
  return { spec, source }
}

type Fed = Pick<RunSpec, 'input' | 'inputFile' | 'stdin'> & { source?: Source }

function toFed(input: RunInput | undefined, cwd: string | undefined, hasTerminal: boolean): Fed {
  if (input === undefined || typeof input === 'string' || types.isUint8Array(input)) return { input }
  if (!isFile(input)) return { stdin: 'pipe', source: sourceOf('input', input) }
  const file = isUrl(input.file) ? fileURLToPath(input.file) : input.file
  if (!hasTerminal) return { inputFile: file }
  // Typed, so it has to be read.
  const read = () => createReadStream(cwd === undefined ? file : resolve(cwd, file))
  return {
    stdin: 'pipe',
    source: sourceOf('input.file', { [Symbol.asyncIterator]: () => read().iterator() }),
  }
}

function isFile(value: unknown): value is { file: string | URL } {
  return typeof value === 'object' && value !== null && 'file' in value
}

/** Of another realm too. */
function isUrl(value: unknown): value is URL {
  return typeof value === 'object' && value !== null && 'href' in value && 'protocol' in value
}

export function toPath(path: string, url: URL): string {
  try {
    return fileURLToPath(url)
  } catch (error) {
    throw invalidOption(path, `expected a path or a file: URL, got ${show(url.href)}: ${String(error)}`)
  }
}

/** The folder meant at the time of the call. */
export function recordFolder(record: string | undefined): string | undefined {
  return record === undefined ? undefined : resolve(record)
}

/** The folder meant at the time of the call: the host may change its own before the program starts. */
export function absolute(cwd: string | URL | undefined): string | undefined {
  if (isUrl(cwd)) return toPath('cwd', cwd)
  try {
    return cwd === undefined ? process.cwd() : resolve(cwd)
  } catch {
    // The host's own folder was deleted: the program inherits it as it is.
    return cwd
  }
}

const ownEnvironment = process.env

/**
 * A worker thread, and a host that replaced `process.env`, have an environment that only JavaScript knows; the main thread's is
 * read natively, which costs a tenth.
 */
export function inheritance(inheritEnv: boolean | string[]): Pick<RunSpec, 'inheritOnly' | 'inherited'> {
  if (inheritEnv === false) return { inherited: [] }
  if (isMainThread && process.env === ownEnvironment)
    return inheritEnv === true ? {} : { inheritOnly: inheritEnv }
  const names = inheritEnv === true ? Object.keys(process.env) : inheritEnv
  return { inherited: names.map((name) => ({ name, value: process.env[name] })) }
}

function idleTimeoutFromEnvironment(): number | undefined {
  for (const name of ['SHEEPDOG_IDLE_SECONDS', 'AGENTFIELD_HARNESS_IDLE_SECONDS']) {
    const text = process.env[name]?.trim()
    // Number('') is 0, which would mean off: an empty value counts as absent.
    // In the environment, where nobody subtracts, less than 0 is off as 0 is.
    if (text && !Number.isNaN(Number(text))) return Math.max(Number(text), 0) * 1000
    if (text) warnOnce(`${name}=${text} is no number of seconds: it counts as absent`)
  }
  return undefined
}
