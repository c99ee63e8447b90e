// A program on a terminal of its own, seen through ours: keys go in as they are typed, and its size follows ours.
import type { ProcessStdin, RunningProcess } from '../lib/index'
import { onJobControl } from './interrupt'
import { passThrough } from './screen'
import { TerminalModes } from './terminal_modes'

/** Our terminal's, for the program's. None: its usual one. */
export function terminalSize(): { columns: number; rows: number } | true {
  const { columns, rows } = process.stdout
  return columns > 0 && rows > 0 ? { columns, rows } : true
}

/** Signals that end this process by default, besides those that ask a run to end. */
const endings: NodeJS.Signals[] = ['SIGQUIT', 'SIGALRM', 'SIGUSR2', 'SIGVTALRM', 'SIGXCPU']

/** Our terminal while a program uses it: as `typeInto` makes it, and given back after every end that this process can see. */
export class LentTerminal {
  readonly #modes = new TerminalModes()
  #isOver = false

  readonly #onResize = () => this.child.resize(process.stdout.columns, process.stdout.rows)
  readonly #onExit = () => this.giveBack()
  readonly #onEnding = (signal: NodeJS.Signals) => {
    this.giveBack()
    process.kill(process.pid, signal)
  }
  readonly #leaveAlone: () => void
  readonly #onKeys = (keys: Buffer) => {
    const { stdin } = process
    // One after the other; a program that takes no more is no error. What was its last key may be told to be taken only after
    // its end: read on then, our terminal would keep this process alive.
    stdin.pause()
    this.child.stdin?.write(keys).then(
      () => {
        if (!this.#isOver) stdin.resume()
      },
      () => {},
    )
  }

  /** Passes on what is typed, raw: Ctrl-C is a key of the program's terminal then. */
  constructor(private readonly child: RunningProcess & { readonly stdin?: ProcessStdin }) {
    const { stdin, stdout } = process
    if (stdout.isTTY) stdout.on('resize', this.#onResize)
    if (stdin.isTTY) stdin.setRawMode(true).on('data', this.#onKeys)
    this.#leaveAlone = onJobControl(
      () => stdin.isTTY && stdin.setRawMode(false),
      () => {
        if (stdin.isTTY) stdin.setRawMode(true)
        // The program draws its screen again: the shell has written on it since.
        if (stdout.isTTY) this.#onResize()
      },
    )
    process.on('exit', this.#onExit)
    for (const signal of endings) process.on(signal, this.#onEnding)
  }

  /** Output of the program that our terminal shows. */
  shows(bytes: Uint8Array): void {
    if (process.stdout.isTTY) this.#modes.push(bytes)
  }

  /** Gives our terminal back as it was: the modes of the line, and those of the screen. */
  giveBack(): void {
    if (this.#isOver) return
    this.#isOver = true
    const { stdin, stdout } = process
    stdout.off('resize', this.#onResize)
    process.off('exit', this.#onExit)
    this.#leaveAlone()
    for (const signal of endings) process.off(signal, this.#onEnding)
    const restored = this.#modes.restore()
    if (restored) passThrough('stdout', restored)
    if (stdin.isTTY) stdin.off('data', this.#onKeys).setRawMode(false).pause()
  }
}
