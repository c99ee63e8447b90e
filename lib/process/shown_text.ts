// The text of a terminal's output, without the sequences that move and colour it. PURE.
// Each character is looked at a bounded number of times: a program must not hold this thread by what it prints.

const CARRIAGE_RETURN = 13

/** C0 but tab, line feed and carriage return; DEL; C1. An escape sequence begins with one of them. */
// eslint-disable-next-line no-control-regex
const controls = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g

/** Escape sequences of ECMA-48: CSI, OSC, the other strings, and all short ones. */
const sequence =
  // eslint-disable-next-line no-control-regex
  /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[PX^_][^\u001b]*\u001b\\|[ -/]*[0-OQ-WYZ\\`-~])/y

/** The beginning of a sequence whose rest has not come yet. */
const unfinished =
  // eslint-disable-next-line no-control-regex
  /\u001b(?:\[[0-?]*[ -/]*|\][^\u0007\u001b]*\u001b?|[PX^_][^\u001b]*\u001b?|[ -/]*)$/y

/** More carriage returns in a row are no text that somebody waits for. */
const MOST_RETURNS = 4096

/** A sequence that is not over after so many characters is none. */
const MOST_UNFINISHED = 4096

/** Takes bytes as they come, and gives the text that is complete: no sequence and no character is torn. */
export class ShownText {
  readonly #decoder = new TextDecoder()
  /** A sequence whose rest has not come yet. */
  #rest = ''
  /** Number of carriage returns before the next character, which says what they mean. */
  #returns = 0
  #isAtLineStart = true

  push(bytes: Uint8Array): string {
    return this.#withoutReturns(this.#plain(this.#decoder.decode(bytes, { stream: true })))
  }

  /** Nothing more comes. */
  end(): string {
    const text = this.#plain(this.#decoder.decode()) + this.#rest.replace(controls, '')
    const shown = this.#withoutReturns(text)
    return this.#isAtLineStart ? shown : shown + '\r'.repeat(this.#returns)
  }

  /** Text without sequences and control characters. */
  #plain(more: string): string {
    const text = this.#rest + more
    this.#rest = ''
    let shown = ''
    let at = 0
    for (;;) {
      controls.lastIndex = at
      const found = controls.exec(text)
      if (!found) return shown + text.slice(at)
      shown += text.slice(at, found.index)
      const end = endOfSequence(text, found.index)
      if (end === undefined) {
        this.#rest = text.slice(found.index)
        return shown
      }
      at = end
    }
  }

  /** Line ends of a terminal as `\n`; at the beginning of a line a carriage return moves nothing, and shells print one there. */
  #withoutReturns(text: string): string {
    let shown = ''
    let at = 0
    while (at < text.length) {
      const begin = at
      while (text.charCodeAt(at) === CARRIAGE_RETURN) at++
      this.#returns = Math.min(this.#returns + at - begin, MOST_RETURNS)
      if (at === text.length) break
      if (text[at] !== '\n' && !this.#isAtLineStart) shown += '\r'.repeat(this.#returns)
      this.#returns = 0
      const next = text.indexOf('\r', at)
      const run = text.slice(at, next < 0 ? text.length : next)
      shown += run
      this.#isAtLineStart = run.endsWith('\n')
      at += run.length
    }
    return shown
  }
}

/** The place behind a control character and the sequence that it begins; `undefined` when the rest of it has not come yet. */
function endOfSequence(text: string, at: number): number | undefined {
  sequence.lastIndex = at
  if (sequence.test(text)) return sequence.lastIndex
  unfinished.lastIndex = at
  return text.length - at <= MOST_UNFINISHED && unfinished.test(text) ? undefined : at + 1
}
