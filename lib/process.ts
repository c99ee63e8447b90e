import type { NativeProcess, RunSpec } from '../native/native'
import { resolve } from 'node:path'
import { types } from 'node:util'
import { isMainThread } from 'node:worker_threads'
import { abortable, throwIfAborted } from './abort'
import { callSite, type CallSite } from './call-site'
import { delivery } from './delivery'
import { SheepdogError, invalidOption, settle } from './error'
import { native } from './native'
import { watchRun } from './observability/channel'
import { check, checkOptions } from './option'
import { BatchIterator, JsonIterator, LineIterator, type Source } from './output'
import { checkSandbox, type SandboxOptions } from './sandbox'

/** How a program is run and watched. Every `*TimeoutMs` takes any number: 0 and Infinity mean off, less than 0 has passed: nothing is started. */
export interface RunOptions {
  /** Working directory; default the host's own. */
  cwd?: string
  /** Merged over the inherited environment; `undefined` removes a name. */
  env?: Record<string, string | undefined>
  /** Default true; a list inherits only these names. */
  inheritEnv?: boolean | string[]
  /** Written to stdin, then closed; a program that does not read it all is no error. Default: stdin is null. */
  input?: string | Uint8Array
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
  /** Stops the run when aborted; one that is already aborted starts nothing. */
  signal?: AbortSignal
}

/** How a program ended. Durations are milliseconds by a monotonic clock, from the spawn. */
export interface RunResult {
  command: string
  args: string[]
  pid: number
  /** null when a signal ended it. */
  exitCode: number | null
  /** For example "SIGTERM"; null when it exited. */
  signal: string | null
  stdout: string
  stderr: string
  /** Bytes printed in all. */
  stdoutBytes: number
  stderrBytes: number
  /** Whether bytes were left out of `stdout` or `stderr`. */
  truncated: boolean
  /** Until the exit. */
  durationMs: number
  firstOutputMs: number | null
  lastOutputMs: number | null
  /** Others held stdout or stderr open past the drain. */
  pipesHeldOpen: boolean
  /** Descendants that had to be killed. */
  straysKilled: number
  /** Descendants that could not be killed: they run as another user (setuid). */
  straysLeft: number
  /** What held the tree together. */
  containment: 'guard' | 'guard+cgroup' | 'pidns' | 'group'
  /** Of the command and the descendants that it waited for. */
  usage: { userMs: number; systemMs: number; maxRssBytes: number }
}

/** A line, without its end. */
export interface OutputLine {
  stream: 'stdout' | 'stderr'
  text: string
}

/** Lines that came together; they may share memory with each other. */
export interface LineBatch {
  stream: 'stdout' | 'stderr'
  lines: string[]
}

/** A string of JavaScript holds no more, and a little room is left (src/binding/process.rs). */
const MAX_TEXT_BYTES = 511 * 2 ** 20

const optionChecks = {
  cwd: check.name,
  env: check.record,
  inheritEnv: check.anyOf('a boolean or an array of strings', check.boolean, check.strings),
  input: check.anyOf(
    'a string or a Uint8Array',
    (path, value) => {
      if (typeof value !== 'string') throw invalidOption(path, 'no string')
    },
    (path, value) => {
      // Of another realm (vm, jest) too.
      if (!types.isUint8Array(value)) throw invalidOption(path, 'no Uint8Array')
    },
  ),
  idleTimeoutMs: check.timeout,
  timeoutMs: check.timeout,
  killGraceMs: check.duration,
  drainMs: check.duration,
  maxOutputBytes: check.countUpTo(MAX_TEXT_BYTES),
  maxLineBytes: check.countUpTo(MAX_TEXT_BYTES),
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
  signal: check.signal,
}

/** The checks of the options that the harness shares. */
export const processOptionChecks = optionChecks

/**
 * Runs a program to its end. Resolves for any exit status; rejects when it could not run or was stopped, with `code` and,
 * where it ran, `result`.
 */
export async function run(command: string, args?: string[], options?: RunOptions): Promise<RunResult> {
  return start(command, args, options).result
}

/** Starts a program. Never throws: errors reject `started` and `result`. */
export function spawn(command: string, args?: string[], options?: RunOptions): RunningProcess {
  let started: Started
  try {
    started = start(command, args, options)
  } catch (error) {
    const result = Promise.reject<RunResult>(error)
    result.catch(() => {})
    started = { result, stop: () => {} }
  }
  return new RunningProcess(started)
}

interface Started {
  process?: NativeProcess
  result: Promise<RunResult>
  site?: CallSite
  stop(reason: 'aborted' | 'killed'): void
}

function start(command: string, args: string[] | undefined, options: RunOptions | undefined): Started {
  checkOptions(options, optionChecks)
  const { signal, ...rest } = options ?? {}
  const spec = toSpec(command, args, rest)
  throwIfAborted(
    signal,
    'PROCESS_ABORTED',
    `${command} was not started: its abort signal was already aborted`,
  )
  const process = native.spawnProcess(spec, delivery)
  const site = callSite()
  const outcome = settle<RunResult>(process.outcome(), site)
  const result = abortable(outcome, signal, 'PROCESS_ABORTED', () => process.stop('aborted'))
  // Nobody has to await it: an unawaited failure is not the host's end.
  result.catch(() => {})
  watchRun(spec, result)
  return { process, result, site, stop: (reason) => process.stop(reason) }
}

function toSpec(command: string, args: string[] | undefined, options: Omit<RunOptions, 'signal'>): RunSpec {
  check.name('command', command)
  if (args !== undefined) check.strings('args', args)
  const { cwd, env = {}, inheritEnv = true, idleTimeoutMs, ...rest } = options
  const changes = Object.entries(env).map(([name, value]) => {
    const path = `env[${JSON.stringify(name)}]`
    if (name === '' || /[=\0]/.test(name)) {
      throw invalidOption(path, 'a variable\'s name is not empty and has neither "=" nor NUL')
    }
    if (value !== undefined) check.string(path, value)
    return { name, value }
  })
  return {
    ...rest,
    command,
    args: args ?? [],
    cwd: absolute(cwd),
    env: changes,
    idleTimeoutMs: idleTimeoutMs ?? idleTimeoutFromEnvironment(),
    ...inheritance(inheritEnv),
  }
}

/** The folder meant at the time of the call: the host may change its own before the program starts. */
export function absolute(cwd: string | undefined): string | undefined {
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

const warnings = new Set<string>()

/** Nobody asked, so nobody can be told by an error. */
function warnOnce(message: string): void {
  if (warnings.has(message)) return
  warnings.add(message)
  process.emitWarning(message, 'SheepdogWarning')
}

/** A program under watch. Async iterable: the same as `lines()`. */
export class RunningProcess implements AsyncIterable<OutputLine>, AsyncDisposable {
  #pid: number | undefined
  readonly #process: NativeProcess | undefined
  readonly #stop: Started['stop']
  #iterator: { close(): void } | undefined

  /** Resolves once the program runs; rejects when it could not be started. */
  readonly started: Promise<{ pid: number }>
  /** How it ended; rejects as `run` does. Need not be awaited. */
  readonly result: Promise<RunResult>

  /** @internal */
  constructor({ process, result, site, stop }: Started) {
    this.#process = process
    this.#stop = stop
    this.result = result
    this.started = process
      ? settle<number>(process.started(), site).then((pid) => ({ pid: (this.#pid = pid) }))
      : result.then(() => ({ pid: 0 }))
    this.started.catch(() => {})
    result.then(
      ({ pid }) => (this.#pid = pid),
      (error: { result?: RunResult }) => (this.#pid = error.result?.pid ?? this.#pid),
    )
  }

  /** Known once `started` has settled. */
  get pid(): number | undefined {
    return this.#pid
  }

  /** Line by line, both streams. A slow reader slows the program; leaving the loop early is `detachOutput()`. */
  lines(): AsyncIterableIterator<OutputLine> {
    return this.#iterate(
      (source) => new LineIterator(source),
      (process) => process.lines(delivery),
    )
  }

  /** Many lines a step: several times faster than `lines()`. */
  lineBatches(): AsyncIterableIterator<LineBatch> {
    return this.#iterate(
      (source) => new BatchIterator(source),
      (process) => process.lines(delivery),
    )
  }

  /**
   * The JSON objects of stdout, one a line; all else is skipped.
   * @param options.types only objects whose top-level `type` is listed; the others never reach JavaScript
   */
  json<T = unknown>(options?: { types?: string[] }): AsyncIterableIterator<T> {
    checkOptions(options, { types: check.strings })
    return this.#iterate(
      (source) => new JsonIterator<T>(source),
      (process) => process.json(options?.types, delivery),
    )
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<OutputLine> {
    return this.lines()
  }

  /** Stops delivering; output is drained and kept as in `run`. */
  detachOutput(): void {
    if (this.#iterator) this.#iterator.close()
    else this.#process?.detachOutput()
  }

  /**
   * SIGTERM to the group, `killGraceMs`, SIGKILL to the tree. Resolves when the tree is gone, with the result as far as there
   * is one; `result` rejects with PROCESS_KILLED. After the end: the result as it was.
   */
  kill(): Promise<RunResult> {
    this.#stop('killed')
    const killed = this.result.catch((error: { result?: RunResult }) => {
      if (error.result) return error.result
      throw error
    })
    // As with `result`: nobody has to await it.
    killed.catch(() => {})
    return killed
  }

  /** Kills the program if it still runs, and waits until its tree is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill().catch(() => {})
  }

  #iterate<I extends { close(): void }>(
    make: (source: Source) => I,
    open: (process: NativeProcess) => number,
  ): I {
    if (this.#iterator) {
      throw new SheepdogError(
        'PROCESS_ITERATED',
        'the output of this process is being iterated already: one iterator a process',
      )
    }
    const process = this.#process
    const iterator = make({
      open: () => process && open(process),
      close: () => process?.detachOutput(),
      end: this.result,
    })
    this.#iterator = iterator
    return iterator
  }
}
