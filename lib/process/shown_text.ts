// The text of a terminal's output, without the sequences that move and colour it. PURE.

/** Escape sequences of ECMA-48: CSI, OSC, the other strings, and all short ones. */
const sequences =
  // eslint-disable-next-line no-control-regex
  /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[PX^_][^\u001b]*\u001b\\|[ -/]*[0-OQ-WYZ\\`-~])/g

/** The beginning of a sequence whose rest has not come yet, or half of a line end. */
// eslint-disable-next-line no-control-regex
const unfinished =
  /(?:\u001b(?:\[[0-?]*[ -/]*|\][^\u0007\u001b]*\u001b?|[PX^_][^\u001b]*\u001b?|[ -/]*)|\r+)$/

/** C0 but tab, line feed and carriage return; DEL; C1. */
// eslint-disable-next-line no-control-regex
const controls = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g

/** A sequence that is not over after so many characters is none. */
const MOST_UNFINISHED = 4096

/** Takes bytes as they come, and gives the text that is complete: no sequence and no character is torn. */
export class ShownText {
  readonly #decoder = new TextDecoder()
  #rest = ''
  #isAtLineStart = true

  push(bytes: Uint8Array): string {
    return this.#take(this.#decoder.decode(bytes, { stream: true }))
  }

  /** Nothing more comes. */
  end(): string {
    return this.#take(this.#decoder.decode()) + this.#plain(this.#rest)
  }

  #take(more: string): string {
    const text = this.#rest + more
    const at = text.search(unfinished)
    const from = at < 0 || text.length - at > MOST_UNFINISHED ? text.length : at
    this.#rest = text.slice(from)
    return this.#plain(text.slice(0, from))
  }

  #plain(text: string): string {
    let shown = text.replace(sequences, '').replace(controls, '').replace(/\r+\n/g, '\n')
    // At the beginning of a line a carriage return moves nothing: shells print one before the output of a command.
    shown = shown.replace(/\n\r+/g, '\n')
    if (this.#isAtLineStart) shown = shown.replace(/^\r+/, '')
    if (shown !== '') this.#isAtLineStart = shown.endsWith('\n')
    return shown
  }
}
