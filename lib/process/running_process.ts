// A program under watch, as its starter holds it.
import type { NativeProcess } from '../../native/native'
import type { Readable } from 'node:stream'
import { constants } from 'node:os'
import type { CallSite } from '../call-site'
import { delivery } from '../delivery'
import { SheepdogError, invalidOption, settle } from '../error'
import { timers } from '../host'
import { suggestion } from '../hint'
import { check, checkNoMore, checkOptions, show } from '../option'
import { JsonIterator, LineIterator, batches, byteBlocks, type Source } from '../output'
import { warnOnce } from '../warning'
import { Expectations, type ExpectOptions, type Expected } from './expect'
import { type OutputFiles, type SavedOutput, toOutputFiles } from './output_files'
import { nodeStream, webStream } from './output_stream'
import { sizeChecks } from './request'
import { unstarted, type LineBatch, type OutputLine, type RunResult } from './result'
import type { ProcessStdin } from './stdin'

/** A start: without a process, nothing was started. */
export interface Started<Output = string> {
  process?: NativeProcess
  result: Promise<RunResult<Output>>
  stdin?: ProcessStdin
  hasTerminal: boolean
  command?: string
  args?: readonly string[]
  /** Whether the output is bytes. */
  isInBytes?: boolean
  site?: CallSite
}

/** A program that runs under supervision. Iterating over it is the same as `lines()`. */
export class RunningProcess<Output = string> implements AsyncIterable<OutputLine>, AsyncDisposable {
  #pid: number | undefined
  readonly #process: NativeProcess | undefined
  readonly #started: Promise<{ pid: number }>
  readonly #result: Promise<RunResult<Output>>
  readonly #hasTerminal: boolean
  readonly #stdin: ProcessStdin | undefined
  readonly #command: string
  /** Makes the result of a program of which no byte ran. */
  readonly #unstarted: () => RunResult<Output>
  #iterator: { close(): void } | undefined
  #objects: JsonIterator<unknown> | undefined
  #expectations: Expectations | undefined
  #stdout: ReadableStream<Uint8Array> | undefined
  #stdoutNode: Readable | undefined
  /** Error with which `result` rejects. */
  #failure: unknown
  #isWatched = false

  /** @internal */
  constructor(started: Started<Output>) {
    const { process, result, stdin, hasTerminal, command, args, isInBytes, site } = started
    this.#process = process
    this.#result = result
    this.#hasTerminal = hasTerminal
    this.#stdin = stdin
    this.#command = command ?? 'the program'
    this.#unstarted = () => unstarted(this.#command, args ?? [], !isInBytes)
    this.#started = process
      ? settle<number>(process.started(), site).then((pid) => ({ pid: (this.#pid = pid) }))
      : result.then(() => ({ pid: 0 }))
    this.#started.catch(() => {})
    result.then(
      ({ pid }) => (this.#pid = pid),
      (error: { result?: RunResult }) => {
        this.#failure = error
        this.#pid = error.result?.pid ?? this.#pid
        if (!error.result) timers.setImmediate(() => this.#warn(error))
      },
    )
  }

  /** Resolves when the program runs. Rejects, as `result` does, when it could not be started. */
  get started(): Promise<{ pid: number }> {
    this.#isWatched = true
    return this.#started
  }

  /** How the program ended. Resolves and rejects as `run` does. You need not await it. */
  get result(): Promise<RunResult<Output>> {
    this.#isWatched = true
    return this.#result
  }

  /**
   * Stdin of the program. Only with `stdin: "pipe"`, otherwise undefined.
   *
   * @throws INVALID_OPTION with `pty` and without `stdin: "pipe"`: on such a terminal the program reads the end of its input.
   */
  get stdin(): ProcessStdin | undefined {
    this.#isWatched = true
    if (this.#hasTerminal && !this.#stdin)
      throw invalidOption(
        'stdin',
        'nothing can be typed into this terminal: spawn it with `pty: true` and `stdin: "pipe"`, without `input`',
      )
    return this.#stdin
  }

  /** Process id of the program; undefined until `started` has settled. */
  get pid(): number | undefined {
    return this.#pid
  }

  /**
   * Yields the output line by line, from both streams. A slow reader slows the program down. Leaving
   * the loop early has the effect of `detachOutput()`. The loop throws what `result` rejects with.
   *
   * @throws PROCESS_ITERATED when the output is already being read.
   * @throws PROCESS_OUTPUT_DROPPED when a part of the output was dropped before the call, as with every other reader.
   *
   * @example
   * for await (const { stream, text } of spawn('npm', ['test']).lines()) console.log(stream, text)
   */
  lines(): AsyncIterableIterator<OutputLine> {
    checkNoMore('lines', arguments, 0)
    return this.#iterate(
      (source) => new LineIterator(source),
      (process) => process.lines(delivery),
    )
  }

  /**
   * Yields many lines at each step. Several times faster than `lines()`.
   *
   * @throws PROCESS_ITERATED when the output is already being read.
   */
  lineBatches(): AsyncIterableIterator<LineBatch> {
    checkNoMore('lineBatches', arguments, 0)
    return this.#iterate(batches, (process) => process.lines(delivery))
  }

  /**
   * Yields the JSON objects of stdout, one for each line. All other lines are skipped.
   *
   * @param options.types Yield only objects whose top-level `type` is in this list. The others never
   *   reach JavaScript.
   * @param options.onSkipped Called with each line that is skipped because it is no JSON object, in its place among the
   *   objects. An error in it ends the iteration with that error.
   * @throws PROCESS_ITERATED when the output is already being read.
   */
  json<T = unknown>(options?: {
    types?: readonly string[]
    onSkipped?: (line: string) => void
  }): AsyncIterableIterator<T> {
    checkNoMore('json', arguments, 1)
    checkOptions(options, { types: check.strings, onSkipped: check.function })
    const { types, onSkipped } = options ?? {}
    const objects = this.#iterate(
      (source) => new JsonIterator<T>(source, undefined, onSkipped),
      (process) => process.json(types as string[] | undefined, onSkipped !== undefined, delivery),
    )
    this.#objects = objects as JsonIterator<unknown>
    return objects
  }

  /**
   * Number of lines that `json()` has skipped because they are no JSON objects. Empty lines do not count. With `types`,
   * a line that stands between braces counts as an object, even if it is broken. Complete when the iterator has ended.
   */
  get skippedLines(): number {
    return (this.#process?.skippedLines() ?? 0) + (this.#objects?.unparsed ?? 0)
  }

  /**
   * Waits until the terminal of the program shows a text. Looks at what was printed since the match before, decoded and without
   * the sequences that colour text and move the cursor; lines end in `\n`. What is typed into the terminal is part of it, because
   * the terminal echoes it. Several calls wait one after the other.
   *
   * From the first call on it is the reader of the output, in place of an iterator. The output is read all the time, and `result`
   * keeps its part as usual.
   *
   * @throws PROCESS_EXPECT_TIMED_OUT, with the end of that text in `screen`. The program goes on.
   * @throws PROCESS_EXPECT_ENDED when the program ends first, or the error of `result`.
   * @throws INVALID_OPTION without the option `pty`.
   * @throws PROCESS_ITERATED when the output is already being read.
   *
   * @example
   * await using python = spawn('python3', ['-i'], { pty: true, stdin: 'pipe' })
   * await python.expect('>>> ')
   * await python.stdin.write('6 * 7\n')
   * const { groups } = await python.expect(/^(\d+)$/m)
   */
  async expect(pattern: string | RegExp, options?: ExpectOptions): Promise<Expected> {
    checkNoMore('expect', arguments, 2)
    if (!this.#hasTerminal && this.#process)
      throw invalidOption('pty', 'this process has no terminal to watch: spawn it with `pty: true`')
    this.#expectations ??= new Expectations(this.#command, this.bytes())
    return this.#expectations.expect(pattern, options)
  }

  /**
   * Yields stdout in chunks, as it arrives.
   *
   * @throws PROCESS_ITERATED when the output is already being read.
   */
  bytes(): AsyncIterableIterator<Uint8Array> {
    checkNoMore('bytes', arguments, 0)
    return this.#iterate(byteBlocks, (process) => process.bytes(delivery))
  }

  /**
   * Stdout as a web stream. Reading starts with the first read, as with `bytes()`. Cancelling the
   * stream has the effect of `detachOutput()`.
   */
  get stdout(): ReadableStream<Uint8Array> {
    return (this.#stdout ??= this.#stream(webStream))
  }

  /**
   * Stdout as a Node stream. Reading starts with the first read, as with `bytes()`. Destroying the
   * stream has the effect of `detachOutput()`.
   *
   * When the run fails, the stream is destroyed with the error of `result` if somebody listens to its errors, as
   * `pipeline()` and `for await` do. Otherwise it ends like a stream of `child_process`, and so does what it is piped into.
   * PROCESS_OUTPUT_DROPPED and PROCESS_ITERATED, which `result` does not tell, always destroy it.
   */
  get stdoutNode(): Readable {
    return (this.#stdoutNode ??= this.#stream((begin) =>
      nodeStream(begin, (error) => error === this.#failure),
    ))
  }

  /**
   * Writes the output to files as it arrives. Native code writes it; the output never passes through
   * JavaScript. Use it instead of an iterator. `result` keeps its part of the output as usual.
   *
   * The files are opened when the program has started, and emptied unless `append` is set. A disk that is slower than the
   * program slows the program down. Resolves when the program has ended and everything is written.
   *
   * Call it right after `spawn()`: of output that was read earlier there is only what `result` keeps.
   *
   * @throws PROCESS_OUTPUT_FAILED when a file cannot be opened or written; the program goes on. Also
   *   when a part of the output was dropped before the call.
   *   Otherwise the error of `result`; the files then hold what was read.
   */
  saveOutput(files: OutputFiles): Promise<SavedOutput> {
    const saved: Promise<SavedOutput> = this.#save(files, arguments).catch((error: unknown) => {
      // `result` tells it: nobody has to await it here as well.
      if (error === this.#failure) saved.catch(() => {})
      throw error
    })
    return saved
  }

  async #save(files: OutputFiles, given: ArrayLike<unknown>): Promise<SavedOutput> {
    checkNoMore('saveOutput', given, 1)
    const { stdout, stderr, append } = toOutputFiles(files)
    if (this.#iterator) throw iterated()
    const process = this.#process
    this.#iterator = { close: () => process?.detachOutput() }
    this.#isWatched = true
    const saved = process ? await settle(process.saveOutput(stdout, stderr, append)) : undefined
    await this.#result
    return saved ?? { stdoutBytes: 0, stderrBytes: 0 }
  }

  /** Same as `lines()`. */
  [Symbol.asyncIterator](): AsyncIterableIterator<OutputLine> {
    return this.lines()
  }

  /** Stops the delivery to the iterator or stream. The output is still read and kept for `result`. */
  detachOutput(): void {
    if (this.#iterator) this.#iterator.close()
    else this.#process?.detachOutput()
  }

  /**
   * Changes the size of the program's terminal, in characters. The program receives SIGWINCH.
   *
   * @throws INVALID_OPTION without the option `pty`.
   */
  resize(columns: number, rows: number): void {
    checkNoMore('resize', arguments, 2)
    if (!this.#hasTerminal)
      throw invalidOption('pty', 'this process has no terminal to resize: spawn it with `pty: true`')
    sizeChecks.columns('columns', columns)
    sizeChecks.rows('rows', rows)
    this.#process?.resize({ columns, rows })
  }

  /**
   * Ends the program. The process group gets SIGTERM, or the given signal, at once; the tree gets
   * SIGKILL after `killGraceMs`. `kill("SIGKILL")` kills the whole tree at once. Each further call
   * sends its signal too.
   *
   * Resolves when the tree is gone, with the result so far; `result` rejects with PROCESS_KILLED. After
   * the end of the program it resolves with the result and changes nothing. Where no program was started, `pid` of the result
   * is 0, and `result` rejects with the reason.
   */
  kill(signal?: NodeJS.Signals): Promise<RunResult<Output>> {
    this.#isWatched = true
    if (arguments.length > 1)
      return Promise.reject(
        invalidOption('kill()', 'takes one argument: `killGraceMs` is an option of spawn()'),
      )
    if (signal === undefined) this.#process?.stop('killed')
    else {
      const number: number | undefined =
        typeof signal === 'string' && Object.hasOwn(constants.signals, signal)
          ? constants.signals[signal]
          : undefined
      if (number === undefined)
        return Promise.reject(
          invalidOption(
            'signal',
            `expected the name of a signal, "SIGTERM", got ${show(signal)}${signalHint(signal)}`,
          ),
        )
      this.#process?.kill(number)
    }
    const killed = this.#result.catch((error: { code?: string; result?: RunResult<Output> }) => {
      if (error.result) return error.result
      // Before the start it settles as after it. A wrong option is an error of the caller, and no end of a program.
      if (error.code?.startsWith('PROCESS_')) return this.#unstarted()
      throw error
    })
    // As with `result`: nobody has to await it.
    killed.catch(() => {})
    return killed
  }

  /** Kills the program if it still runs, and waits until its process tree is gone. */
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
      end: ended(this.#result),
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

/** The end of an iteration. A program that failed by itself has nothing wrong with its output. */
function ended(result: Promise<unknown>): Promise<unknown> {
  const end = result.catch((error: unknown) => {
    if (!(error instanceof SheepdogError) || error.code !== 'PROCESS_FAILED') throw error
  })
  // A loop that is left early never asks for it.
  end.catch(() => {})
  return end
}

function iterated(): SheepdogError {
  return new SheepdogError(
    'PROCESS_ITERATED',
    'the output of this process is already being read: it can be read once',
  )
}

/** The name of a signal that was meant by another word or by its number. */
function signalHint(signal: unknown): string {
  // Others, such as symbols, may have no text.
  if (typeof signal !== 'string' && typeof signal !== 'number') return ''
  const names = Object.keys(constants.signals)
  const meant = names.find(
    (name) => constants.signals[name as NodeJS.Signals] === signal || name === `SIG${signal}`.toUpperCase(),
  )
  if (meant) return `; did you mean "${meant}"?`
  return typeof signal === 'string' ? suggestion(signal, names, (name) => `"${name}"`) : ''
}
