// A program under watch, as its starter holds it.
import type { NativeProcess } from '../../native/native'
import type { Readable } from 'node:stream'
import { constants } from 'node:os'
import type { CallSite } from '../call-site'
import { delivery } from '../delivery'
import { SheepdogError, invalidOption, settle } from '../error'
import { check, checkOptions, show } from '../option'
import { BatchIterator, ByteIterator, JsonIterator, LineIterator, type Source } from '../output'
import { warnOnce } from '../warning'
import { type OutputFiles, type SavedOutput, toOutputFiles } from './output_files'
import { nodeStream, webStream } from './output_stream'
import { sizeChecks } from './request'
import type { LineBatch, OutputLine, RunResult } from './result'
import type { ProcessStdin } from './stdin'

/** What was begun; without a process nothing was. */
export interface Started<Output = string> {
  process?: NativeProcess
  result: Promise<RunResult<Output>>
  stdin?: ProcessStdin
  hasTerminal: boolean
  site?: CallSite
}

// As it is now: a test runner's fake timers must not stop it.
const { setImmediate } = globalThis

/** A program under watch. Async iterable: the same as `lines()`. */
export class RunningProcess<Output = string> implements AsyncIterable<OutputLine>, AsyncDisposable {
  #pid: number | undefined
  readonly #process: NativeProcess | undefined
  readonly #started: Promise<{ pid: number }>
  readonly #result: Promise<RunResult<Output>>
  readonly #hasTerminal: boolean
  readonly #stdin: ProcessStdin | undefined
  #iterator: { close(): void } | undefined
  #stdout: ReadableStream<Uint8Array> | undefined
  #stdoutNode: Readable | undefined
  #isWatched = false

  /** @internal */
  constructor({ process, result, stdin, hasTerminal, site }: Started<Output>) {
    this.#process = process
    this.#result = result
    this.#hasTerminal = hasTerminal
    this.#stdin = stdin
    this.#started = process
      ? settle<number>(process.started(), site).then((pid) => ({ pid: (this.#pid = pid) }))
      : result.then(() => ({ pid: 0 }))
    this.#started.catch(() => {})
    result.then(
      ({ pid }) => (this.#pid = pid),
      (error: { result?: RunResult }) => {
        this.#pid = error.result?.pid ?? this.#pid
        if (!error.result) setImmediate(() => this.#warn(error))
      },
    )
  }

  /** Resolves once the program runs; rejects when it could not be started. */
  get started(): Promise<{ pid: number }> {
    this.#isWatched = true
    return this.#started
  }

  /** How it ended; rejects as `run` does. Need not be awaited. */
  get result(): Promise<RunResult<Output>> {
    this.#isWatched = true
    return this.#result
  }

  /** With `stdin: "pipe"`. */
  get stdin(): ProcessStdin | undefined {
    this.#isWatched = true
    return this.#stdin
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

  /** stdout as it comes. */
  bytes(): AsyncIterableIterator<Uint8Array> {
    return this.#iterate(
      (source) => new ByteIterator(source),
      (process) => process.bytes(delivery),
    )
  }

  /** stdout as a web stream; its first read is what `bytes()` is. Cancelling it is `detachOutput()`. */
  get stdout(): ReadableStream<Uint8Array> {
    return (this.#stdout ??= this.#stream(webStream))
  }

  /** stdout as a Node stream; its first read is what `bytes()` is. Destroying it is `detachOutput()`. */
  get stdoutNode(): Readable {
    return (this.#stdoutNode ??= this.#stream(nodeStream))
  }

  /**
   * Writes the output to files as it comes, in native code: it never passes through JavaScript. Takes the place of an iterator; what
   * `result` keeps stays as it is. The files are opened at once, and emptied unless `append` is set; both may be the same. A disk
   * that is slower than the program slows the program.
   *
   * Resolves when all is written and the program has ended; rejects as `result` does (what came is in the files then), or
   * with PROCESS_OUTPUT_FAILED: the program goes on.
   */
  async saveOutput(files: OutputFiles): Promise<SavedOutput> {
    const { stdout, stderr, append } = toOutputFiles(files)
    if (this.#iterator) throw iterated()
    const process = this.#process
    this.#iterator = { close: () => process?.detachOutput() }
    this.#isWatched = true
    const saved = process ? await settle(process.saveOutput(stdout, stderr, append)) : undefined
    await this.#result
    return saved ?? { stdoutBytes: 0, stderrBytes: 0 }
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<OutputLine> {
    return this.lines()
  }

  /** Stops delivering; output is drained and kept as in `run`. */
  detachOutput(): void {
    if (this.#iterator) this.#iterator.close()
    else this.#process?.detachOutput()
  }

  /** Another size for the program's terminal, in characters; it is told by SIGWINCH. Throws without `pty`. */
  resize(columns: number, rows: number): void {
    if (!this.#hasTerminal) throw invalidOption('pty', 'this process has no terminal that could be resized')
    sizeChecks.columns('columns', columns)
    sizeChecks.rows('rows', rows)
    this.#process?.resize({ columns, rows })
  }

  /**
   * SIGTERM, or the signal that is given, to the group at once; after `killGraceMs` SIGKILL to the tree. SIGKILL is to the tree at
   * once. Resolves when the tree is gone, with the result as far as there is one; `result` rejects with PROCESS_KILLED. Called
   * again, it sends the signal that is given too. After the end: the result as it was.
   */
  kill(signal?: NodeJS.Signals): Promise<RunResult<Output>> {
    this.#isWatched = true
    if (signal === undefined) this.#process?.stop('killed')
    else {
      const number: number | undefined =
        typeof signal === 'string' && Object.hasOwn(constants.signals, signal)
          ? constants.signals[signal]
          : undefined
      if (number === undefined)
        return Promise.reject(
          invalidOption('signal', `expected the name of a signal, "SIGTERM", got ${show(signal)}`),
        )
      this.#process?.kill(number)
    }
    const killed = this.#result.catch((error: { result?: RunResult<Output> }) => {
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
    this.#isWatched = true
    if (this.#iterator) throw iterated()
    const process = this.#process
    const iterator = make({
      open: () => process && open(process),
      close: () => process?.detachOutput(),
      end: this.#result,
    })
    this.#iterator = iterator
    return iterator
  }

  /** A stream that nobody reads takes nothing from anybody: the iteration begins with its first read. */
  #stream<S>(make: (begin: () => AsyncIterator<Uint8Array>) => S): S {
    if (this.#iterator) throw iterated()
    return make(() => this.bytes())
  }

  /** Nothing was started, and nobody will hear of it. */
  #warn(error: unknown): void {
    if (this.#isWatched || !(error instanceof SheepdogError)) return
    if (error.code === 'PROCESS_ABORTED') return
    warnOnce(`spawn() failed, and neither started nor result is watched: ${error.code}: ${error.message}`)
  }
}

function iterated(): SheepdogError {
  return new SheepdogError(
    'PROCESS_ITERATED',
    'the output of this process is being iterated already: one iterator a process',
  )
}
