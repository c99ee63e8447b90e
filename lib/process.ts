import { abortable, throwIfAborted } from './abort'
import { callSite } from './call-site'
import { delivery } from './delivery'
import { because, settle } from './error'
import { nativeLimit } from './limit'
import { native } from './native'
import { checkNoMore, ownMembers } from './option'
import { watchRun } from './observability/run_watch'
import { pairs } from './process/environment'
import { pump } from './process/input'
import { callOf, closeInput, toSpec, type RunOptions } from './process/request'
import type { RunResult } from './process/result'
import { retried } from './process/retry'
import { RunningProcess, type Started } from './process/running_process'
import { ProcessStdin } from './process/stdin'
import { StdinQueue } from './process/stdin_queue'

export type { RunOptions } from './process/request'
export type { Expected, ExpectOptions } from './process/expect'
export type { RunInput } from './process/input'
export type { RunRetry } from './process/retry'
export type { LineBatch, OutputLine, RecordFacts, RunResult } from './process/result'
export { RunningProcess } from './process/running_process'
export { ProcessStdin } from './process/stdin'

/** These options, behind the arguments or in their place. */
type With<Options> = [args: readonly string[] | undefined, options: Options] | [options: Options]

/** The same, or no options. */
type WithAny<Options> = [args?: readonly string[], options?: Options] | [options?: Options]

type InText = { encoding?: 'utf8' }
type InBytes = { encoding: 'buffer' }
type Piped = { stdin: 'pipe' }
type Unpiped = { stdin?: 'null' | 'inherit' }

/** Stdin that can be written to. */
type Writable = { readonly stdin: ProcessStdin }

/**
 * Runs a program to its end. Resolves for any exit status, when the program and its whole process tree
 * are gone. With `reject: true` it rejects when the program fails.
 *
 * @param command Name of a program on PATH, or a path. There is no shell: use `run('sh', ['-c',
 *   script])` for one.
 * @throws PROCESS_NOT_FOUND, PROCESS_IDLE, PROCESS_TIMED_OUT, PROCESS_ABORTED and others
 *   (docs/errors.md) when the program could not run or was stopped. The error has a `code` and, if the
 *   program ran, `result` with everything that was read.
 *
 * @example
 * const { exitCode, stdout } = await run('npm', ['test'], { idleTimeoutMs: 60_000 })
 */
export async function run(
  command: string,
  args?: readonly string[],
  options?: RunOptions & InText,
): Promise<RunResult>
/** Runs a program without arguments to its end. */
export async function run(command: string, options?: RunOptions & InText): Promise<RunResult>
/** As above; `stdout` and `stderr` of the result are bytes. */
export async function run(
  command: string,
  ...rest: With<RunOptions & InBytes>
): Promise<RunResult<Uint8Array>>
/** As above, with an `encoding` that the types do not tell: `stdout` and `stderr` of the result are text or bytes. */
export async function run(command: string, ...rest: With<RunOptions>): Promise<RunResult<string | Uint8Array>>
export async function run(command: string, args?: unknown, options?: unknown): Promise<unknown> {
  checkNoMore('run', arguments, 3)
  const call = prepared(command, args, options, false)
  const { retry, signal } = call.options
  if (retry === undefined) return runOnce(call)
  return retried(retry, signal, () => runOnce(call))
}

async function runOnce(call: ReturnType<typeof prepared>): Promise<RunResult> {
  const { process, result } = start(call)
  try {
    return await result
  } finally {
    // Nobody else has it, and its memory is not V8's, which would collect it late.
    process?.letGo()
  }
}

/**
 * Starts a program and returns at once. Never throws: errors reject `started` and `result`.
 *
 * @example
 * const child = spawn('npm', ['run', 'build'])
 * for await (const { text } of child) console.log(text)
 * const { exitCode } = await child.result
 */
export function spawn(
  command: string,
  args?: readonly string[],
  options?: RunOptions & InText & Unpiped,
): RunningProcess
/** Starts a program without arguments. */
export function spawn(command: string, options?: RunOptions & InText & Unpiped): RunningProcess
/** As above; `stdin` can be written to. */
export function spawn(command: string, ...rest: With<RunOptions & InText & Piped>): RunningProcess & Writable
/** As above; there is a `stdin` if the options ask for it. */
export function spawn(command: string, ...rest: With<RunOptions & InText>): RunningProcess
/** As above; stdin can be written to, and the output is bytes. */
export function spawn(
  command: string,
  ...rest: With<RunOptions & InBytes & Piped>
): RunningProcess<Uint8Array> & Writable
/** As above; `stdout` and `stderr` of the result are bytes. */
export function spawn(command: string, ...rest: With<RunOptions & InBytes>): RunningProcess<Uint8Array>
/** As above, with an `encoding` that the types do not tell: the output is text or bytes. */
export function spawn(
  command: string,
  ...rest: With<RunOptions & Piped>
): RunningProcess<string | Uint8Array> & Writable
/** As above, with options that the types do not tell: the output is text or bytes, and there may be a `stdin`. */
export function spawn(command: string, ...rest: WithAny<RunOptions>): RunningProcess<string | Uint8Array>
export function spawn(command: string, args?: unknown, options?: unknown): unknown {
  let started: Started
  try {
    checkNoMore('spawn', arguments, 3)
    started = start(prepared(command, args, options, true))
  } catch (error) {
    const result = Promise.reject<RunResult>(error)
    result.catch(() => {})
    started = { result, hasTerminal: false, command: typeof command === 'string' ? command : undefined }
  }
  return new RunningProcess(started)
}

/** The call, checked. One that is refused closes its input, as every other end does: the caller may have no name for it. */
function prepared(command: unknown, args: unknown, options: unknown, canBeWritten: boolean) {
  try {
    const call = callOf(command, args, options)
    return { ...call, ...toSpec(call, canBeWritten) }
  } catch (error) {
    closeInput(args, options)
    throw error
  }
}

function start({ command, options, spec: asked, open }: ReturnType<typeof prepared>): Started {
  const { signal, limit } = options
  const source = open?.()
  source?.take()
  if (signal?.aborted) source?.close()
  throwIfAborted(
    signal,
    'PROCESS_ABORTED',
    `${command} was not started: its abort signal was already aborted`,
  )
  const watch = watchRun(asked)
  // The caller's own come last, and win.
  const env = watch && [...pairs(watch.environment), ...asked.env]
  const spec = env ? ownMembers({ ...asked, env }) : asked
  const process = native.spawnProcess(spec, delivery, limit && nativeLimit(limit))
  const site = callSite()
  let cause: unknown
  const fail = (reason: unknown) => {
    cause ??= reason
    process.stop('input-failed')
  }
  const outcome = settle<RunResult>(process.outcome(), site).catch((error: unknown) => {
    throw because(error, 'PROCESS_INPUT_FAILED', cause)
  })
  const result = abortable(outcome, signal, 'PROCESS_ABORTED', () => process.stop('aborted'))
  // Nobody has to await it: an unawaited failure is not the host's end.
  result.catch(() => {})
  watch?.follow(result)
  const queue = spec.stdin === 'pipe' ? new StdinQueue(process) : undefined
  if (source && queue) {
    // Not before it runs: a source is not begun for nothing.
    const fed = settle(process.started()).then(
      () => pump(source, queue, outcome),
      () => source.close(),
    )
    fed.catch(fail)
  }
  const stdin = queue && !source ? new ProcessStdin(queue, fail) : undefined
  const hasTerminal = spec.terminal !== undefined
  const isInBytes = options.encoding === 'buffer'
  return { process, result, stdin, hasTerminal, command, args: spec.args, isInBytes, site }
}
