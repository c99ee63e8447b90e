// Options of a program's run: types and their checks. What a value means, and its default, is the core's business.
import { quoted } from '../json'
import type { RunSpec } from '../../native/native'
import { createReadStream } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { types } from 'node:util'
import { invalidOption } from '../error'
import { absolutePath } from '../host'
import { checkLimit, type ConcurrencyLimit } from '../limit'
import {
  check,
  checkOptions,
  checkVariableName,
  isObject,
  optionsOf,
  ownMembers,
  show,
  type Checks,
  type Crossing,
} from '../option'
import { checkSandbox, sandboxSpec, type SandboxOptions } from '../sandbox'
import { idleTimeoutFromEnvironment, inheritance } from './environment'
import { inTheirPlace } from './foreign_option'
import { sourceOf, type RunInput, type Source } from './input'
import { checkRetry, type RunRetry } from './retry'

/**
 * Options of `run` and `spawn`.
 *
 * Every `*TimeoutMs` is in milliseconds. 0 and Infinity switch the clock off. With a negative
 * value the deadline is over: nothing is started, and the promise rejects with the clock's error.
 */
export interface RunOptions {
  /**
   * Working directory of the program: a path or a `file:` URL.
   *
   * @default the working directory of this process
   * @throws PROCESS_CWD_MISSING when it does not exist or is no folder.
   */
  cwd?: string | URL
  /**
   * Environment variables that are set on top of the inherited ones. `undefined` removes a variable.
   */
  env?: Record<string, string | undefined>
  /**
   * Whether the program inherits the environment of this process. An array inherits only the variables
   * with these names.
   *
   * @default true
   */
  inheritEnv?: boolean | readonly string[]
  /**
   * Data for the program's stdin, which is closed after it. It is no error when the program does not
   * read all of it.
   *
   * A stream or an iterable is read only once the program runs, and no faster than the program reads.
   * It is closed (`return()`, `cancel()`, `destroy()`) when the program ends first. If it fails, the
   * whole process tree is killed. A file is relative to `cwd`.
   *
   * @default nothing: the program reads end of file at once
   * @throws PROCESS_INPUT_FAILED when the source fails; its error is the `cause`.
   */
  input?: RunInput
  /**
   * Kill the whole process tree immediately when no output has been read and no input accepted for this
   * long, in milliseconds. The clock rests while your code reads more slowly than the program writes.
   *
   * @default the variable SHEEPDOG_IDLE_SECONDS, else AGENTFIELD_HARNESS_IDLE_SECONDS, else 120_000
   * @throws PROCESS_IDLE, with what was read so far in `result`.
   */
  idleTimeoutMs?: number
  /**
   * Longest time from the start of the program, in milliseconds. After that the process group gets
   * SIGTERM, and the tree gets SIGKILL after `killGraceMs`.
   *
   * @default 1_800_000 (30 minutes)
   * @throws PROCESS_TIMED_OUT, with what was read so far in `result`.
   */
  timeoutMs?: number
  /**
   * Time between SIGTERM and SIGKILL on a timeout, an abort and `kill()`, in milliseconds. SIGTERM goes
   * to the process group, SIGKILL to the whole tree.
   *
   * @default 2000
   */
  killGraceMs?: number
  /**
   * After the program has exited, how long its stdout and stderr are still read when other processes
   * hold them open, in milliseconds. Output of the program itself is always read completely.
   *
   * @default 250
   */
  drainMs?: number
  /**
   * How many bytes of each stream `result` keeps. Of a longer output it keeps the beginning and the
   * end, cut at line breaks, with one line between that says how many bytes are missing; `truncated` is
   * then true. At most 511 MiB.
   *
   * @default 16_777_216 (16 MiB)
   */
  maxOutputBytes?: number
  /**
   * Longest line that an iterator yields, in bytes. On a longer line the process tree is killed. At
   * most 511 MiB.
   *
   * @default 67_108_864 (64 MiB)
   * @throws PROCESS_LINE_TOO_LONG
   */
  maxLineBytes?: number
  /**
   * `"null"`: the program reads end of file at once. `"pipe"` (only for `spawn`): the process has a
   * `stdin` to write to. `"inherit"`: the program reads the stdin of this process.
   *
   * @default "null", or `input` where it is given
   */
  stdin?: 'null' | 'pipe' | 'inherit'
  /**
   * `"inherit"`: the program uses the stdin, stdout and stderr of this process. Nothing is read or
   * kept, and the idle clock is off.
   *
   * @default pipes, which this package reads
   */
  stdio?: 'inherit'
  /**
   * Type of `stdout` and `stderr` in the result. `"utf8"`: strings, in which invalid UTF-8 is replaced
   * by U+FFFD. `"buffer"`: bytes as they were printed.
   *
   * @default "utf8"
   */
  encoding?: 'utf8' | 'buffer'
  /**
   * Reject when the program fails: when its exit status is not 0, or a signal ended it. With `spawn` only the promise `result`
   * rejects; loops over the output end as usual.
   *
   * @default false
   * @throws PROCESS_FAILED, with everything that was read in `result`.
   */
  reject?: boolean
  /**
   * Also write what the program prints to the stdout and stderr of this process, as it comes and unchanged. The output is kept,
   * iterated and watched for silence as ever. `"stdout"` and `"stderr"` show one of them.
   *
   * A reader of this process that is slow slows the program down. If it takes nothing for 30 seconds, or is gone, the rest is
   * not shown; the run goes on. Cannot be combined with `stdio: "inherit"`.
   *
   * @default false
   */
  echo?: boolean | 'stdout' | 'stderr'
  /**
   * Leave out the last line end of `stdout` and `stderr` in the result.
   *
   * @default false
   */
  trim?: boolean
  /**
   * Look for the program in `node_modules/.bin` of `cwd` and of the folders above it, before PATH. The program gets this PATH
   * too. A string is another folder to begin with, relative to `cwd`.
   *
   * @default false
   */
  preferLocal?: boolean | string
  /**
   * Gives the program a terminal of its own, for programs that buffer their output or refuse to work
   * without one. `stdout` is what the terminal shows, `stderr` is empty. The input is typed into the
   * terminal, which echoes it. Without input, and after its end, the program reads end of file.
   *
   * @default false
   */
  pty?:
    | boolean
    | {
        /**
         * Width of the terminal in characters. `resize()` changes it.
         *
         * @default 80
         */
        columns?: number
        /**
         * Height of the terminal in characters. `resize()` changes it.
         *
         * @default 24
         */
        rows?: number
      }
  /**
   * `"kill"`: kill descendants that are still alive after the program has exited. `"keep"`: leave them
   * running.
   *
   * @default "kill"
   */
  strays?: 'kill' | 'keep'
  /**
   * How the process tree is held together. `"auto"`: the strongest way that needs no privilege.
   * `"group"`: a process group and marks in the environment only. `"strict"`: a PID namespace.
   *
   * @default "auto"
   * @throws CONTAINMENT_UNAVAILABLE when `"strict"` is not possible on this machine.
   */
  containment?: 'auto' | 'group' | 'strict'
  /**
   * Memory limit of the whole process tree, in bytes. Needs a writable cgroup.
   *
   * @default no limit
   * @throws CONTAINMENT_UNAVAILABLE without a writable cgroup.
   */
  memoryMaxBytes?: number
  /**
   * Limit on the number of processes in the tree. Needs a writable cgroup.
   *
   * @default no limit
   * @throws CONTAINMENT_UNAVAILABLE without a writable cgroup.
   */
  maxProcesses?: number
  /**
   * Files and network that the program and everything it starts may use. The kernel enforces it.
   * `"workspace"`: it may write only below `cwd`.
   *
   * @default no sandbox
   * @throws SANDBOX_UNAVAILABLE when the kernel cannot enforce it; nothing is started.
   */
  sandbox?: 'workspace' | SandboxOptions
  /**
   * Keep a record of the run in a new folder below this one: the command, everything it printed with
   * times, and how it ended. Native code writes it, off the JavaScript thread. When this process is
   * killed, at most the last quarter of a second is missing. See docs/record.md.
   *
   * @default no record
   * @throws INVALID_OPTION when the folder cannot be written.
   */
  record?: string
  /**
   * How many bytes of each stream a record keeps. Past that it keeps the last MiB too, with a line
   * between that says how many bytes are missing.
   *
   * @default 268_435_456 (256 MiB)
   */
  maxRecordBytes?: number
  /**
   * Name of the run in `sheepdog ps` and in its record.
   *
   * @default none
   */
  name?: string
  /**
   * A limit that this run shares with others. The program starts when a slot is free, and frees it when
   * its process tree is gone. The clocks start with the program, not with the wait.
   *
   * @default no limit
   */
  limit?: ConcurrencyLimit
  /**
   * `run` only: run the program again when it fails, after a pause. A number is the number of attempts, the first one
   * included. `result.attempts` says how many it took. `supervise()` restarts a program that is to run all the time.
   *
   * @default 1
   */
  retry?: number | RunRetry
  /**
   * Ends the run when aborted: SIGTERM to the process group, SIGKILL to the tree after `killGraceMs`.
   * If it is already aborted, nothing is started.
   *
   * @throws PROCESS_ABORTED, with the signal's reason as `cause`.
   */
  signal?: AbortSignal
}

/** A string of JavaScript holds no more, and a little room is left (src/binding/process.rs). */
const MAX_TEXT_BYTES = 511 * 2 ** 20

/** A terminal's columns and rows. */
export const sizeChecks = { columns: check.integer(1, 65_535), rows: check.integer(1, 65_535) }

/** The checks of the options that runs, turns and sessions share. */
export const processOptionChecks = optionsOf('run()', {
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
  maxOutputBytes: check.integer(1, MAX_TEXT_BYTES),
  maxLineBytes: check.integer(1, MAX_TEXT_BYTES),
  stdin: check.oneOf('null', 'pipe', 'inherit'),
  stdio(path: string, value: unknown) {
    if (value === 'inherit') return
    const instead = 'what a program prints is read anyway, and `stdin: "pipe"` makes its stdin writable'
    throw invalidOption(path, `expected "inherit", got ${show(value)}: ${instead}`)
  },
  encoding: check.oneOf('utf8', 'buffer'),
  reject: check.boolean,
  echo: check.anyOf('a boolean, "stdout" or "stderr"', check.boolean, check.oneOf('stdout', 'stderr')),
  trim: check.boolean,
  preferLocal: check.anyOf('a boolean or a folder', check.boolean, check.name),
  pty(path: string, value: unknown) {
    if (typeof value === 'boolean') return
    check.expected('a boolean or { columns, rows }', isObject)(path, value)
    checkOptions(value, sizeChecks, path)
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
  retry: checkRetry,
  signal: check.signal,
} satisfies Checks<RunOptions>)

/** The parts of a call: the options may stand in the place of the arguments. */
export interface Call {
  command: string
  args: string[]
  options: RunOptions
}

/** An array, and what is none of both, is checked as arguments. */
export function isOptions(args: unknown, options: unknown): boolean {
  return options === undefined && typeof args === 'object' && args !== null && !Array.isArray(args)
}

/** Closes the stream that a refused call was given. */
export function closeInput(args: unknown, options: unknown): void {
  try {
    const { input } = ((isOptions(args, options) ? args : options) ?? {}) as RunOptions
    const source = sourceOf('input', input)
    source?.take()
    source?.close()
  } catch {
    // It is being read elsewhere, or can't even be looked at.
  }
}

export function callOf(command: unknown, args: unknown, options: unknown): Call {
  const onlyOptions = isOptions(args, options)
  const given = onlyOptions ? args : options
  const list = onlyOptions ? undefined : args
  checkOptions(given, processOptionChecks, '', inTheirPlace)
  check.name('command', command)
  if (list !== undefined) check.strings('args', list)
  return {
    command: command as string,
    // A copy: further runs of a `retry` get the arguments of the call.
    args: [...((list as string[] | undefined) ?? [])],
    options: ownMembers((given as RunOptions | undefined) ?? {}),
  }
}

/** Refuses options that can't be combined. */
function checkTogether({ input, stdin, stdio, pty, retry }: RunOptions, canBeWritten: boolean): void {
  const instead = 'with `stdio: "inherit"` the program reads the stdin of this process'
  if (stdio && input !== undefined) throw invalidOption('input', `cannot be used: ${instead}`)
  if (stdio && stdin && stdin !== 'inherit') throw invalidOption('stdin', `cannot be "${stdin}": ${instead}`)
  if (stdio && pty) throw invalidOption('pty', 'cannot be combined with `stdio: "inherit"`')
  if (stdin && input !== undefined)
    throw invalidOption('stdin', `cannot be combined with \`input\`, which is the stdin of the program`)
  if (pty && stdin === 'inherit')
    throw invalidOption('stdin', 'cannot be "inherit" with `pty`: use "pipe" to type into the terminal')
  if (retry !== undefined && canBeWritten)
    throw invalidOption('retry', 'is an option of run(): supervise() starts a program again')
  if (retry !== undefined && isReadOnce(input))
    throw invalidOption('input', 'a stream can be read once: with `retry` use text, bytes or { file }')
  if (stdin === 'pipe' && !canBeWritten)
    throw invalidOption('stdin', '"pipe" is for spawn(), whose process has a `stdin`; run() takes `input`')
}

/** @param canBeWritten somebody has the process, and so its stdin */
export function toSpec(
  { command, args, options }: Call,
  canBeWritten: boolean,
): { spec: RunSpec; open?: () => Source } {
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
    echo,
    preferLocal,
    limit: _,
    signal: __,
    retry: ___,
    sandbox,
    ...rest
  } = options
  rest satisfies Crossing<typeof rest, RunSpec>
  const changes = environmentChanges(env)
  const folder = folderPath(cwd)
  const { open, ...fed } = toFed(input, folder, !!pty)
  const spec = ownMembers<RunSpec>({
    ...rest,
    ...fed,
    ...(stdin && stdin !== 'null' ? { stdin } : {}),
    command,
    args,
    cwd: folder,
    env: changes,
    inheritStdio: stdio === 'inherit',
    terminal: pty === true ? {} : pty || undefined,
    echo: echo === true ? 'both' : echo || undefined,
    // The empty path is `cwd` itself.
    preferLocal: preferLocal === true ? '' : preferLocal || undefined,
    sandbox: sandbox && sandboxSpec(sandbox === 'workspace' ? { write: ['.'] } : sandbox),
    idleTimeoutMs: idleTimeoutMs ?? idleTimeoutFromEnvironment(),
    ...inheritance(inheritEnv),
  })
  return { spec, open }
}

/** `open` gives the source of one run. */
type Fed = Pick<RunSpec, 'input' | 'inputFile' | 'stdin'> & { open?: () => Source }

function toFed(input: RunInput | undefined, cwd: string | undefined, hasTerminal: boolean): Fed {
  if (input === undefined || typeof input === 'string' || types.isUint8Array(input)) return { input }
  if (!isFile(input)) {
    const source = sourceOf('input', input)
    return { stdin: 'pipe', open: source && (() => source) }
  }
  const file = isUrl(input.file) ? fileURLToPath(input.file) : input.file
  if (!hasTerminal) return { inputFile: file }
  // Typed, so it has to be read.
  const path = absolutePath(cwd === undefined || isAbsolute(file) ? file : join(cwd, file))
  const read = () => createReadStream(path)
  return {
    stdin: 'pipe',
    open: () => sourceOf('input.file', { [Symbol.asyncIterator]: () => read().iterator() })!,
  }
}

/** Whether another run could not have the same input. */
export function isReadOnce(input: unknown): boolean {
  return input !== undefined && typeof input !== 'string' && !types.isUint8Array(input) && !isFile(input)
}

function isFile(value: unknown): value is { file: string | URL } {
  return typeof value === 'object' && value !== null && 'file' in value
}

/** Whether a value is a URL, also one of another realm. */
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

export function environmentChanges(
  env: Record<string, string | undefined>,
): { name: string; value?: string }[] {
  return Object.entries(env).map(([name, value]) => {
    const path = `env[${quoted(name)}]`
    checkVariableName(path, name)
    if (value !== undefined) check.string(path, value)
    return { name, value }
  })
}

/** A relative path stays one: native code holds the folder that the call begins in. */
export function folderPath(cwd: string | URL | undefined): string | undefined {
  return isUrl(cwd) ? toPath('cwd', cwd) : cwd
}
