// The modes that a program sets on the terminal that shows its output, and the text that takes them back. PURE.

/** Sequences that set or reset a mode of the screen. Anything else is text to this file. */
const sequence =
  // oxlint-disable-next-line no-useless-escape -- as the standards write them
  /\x1b(?:\[\?([\d;]*)([hl])|\[([\d;:]*)m|\[([<>])[\d;]*u|\[>([\d;]*)m|\[([\d;]*)r|\[(\d*) q|([=>])|\(([^\x1b])|(c)|\[(!)p)/g

/** The longest beginning of a sequence that is kept for the next piece of output. */
const LONGEST = 64

/** Private modes that are on after a reset: these are taken back by setting them. */
const usuallyOn = new Set(['7', '25'])

/** Private modes that are no state of the screen: saving the cursor, and output that is drawn at once. */
const stateless = new Set(['1048'])

export class TerminalModes {
  #carry = ''
  /** Private modes that differ from the usual ones, in the order in which they were set. */
  readonly #modes = new Set<string>()
  #isStyled = false
  #keyboards = 0
  #hasKeyModes = false
  #hasMargins = false
  #hasCursorStyle = false
  #hasKeypad = false
  #hasCharacters = false

  /** Looks at the next piece of the output. */
  push(bytes: Uint8Array): void {
    const text = this.#carry + Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
    let end = 0
    for (const match of text.matchAll(sequence)) {
      this.#apply(match)
      end = match.index + match[0].length
    }
    const begun = text.lastIndexOf('\x1b')
    this.#carry = begun >= end && text.length - begun < LONGEST ? text.slice(begun) : ''
  }

  #apply([
    ,
    modes,
    set,
    style,
    keyboard,
    keyModes,
    margins,
    cursor,
    keypad,
    characters,
    reset,
    soft,
  ]: string[]) {
    if (set) for (const mode of (modes ?? '').split(';')) this.#set(mode, set === 'h')
    else if (style !== undefined) this.#isStyled = !/^0?$/.test(style)
    else if (keyboard) this.#keyboards = Math.max(0, this.#keyboards + (keyboard === '>' ? 1 : -1))
    else if (keyModes !== undefined) this.#hasKeyModes = /;[1-9]/.test(keyModes)
    else if (margins !== undefined) this.#hasMargins = margins !== ''
    else if (cursor !== undefined) this.#hasCursorStyle = !/^0?$/.test(cursor)
    else if (keypad) this.#hasKeypad = keypad === '='
    else if (characters) this.#hasCharacters = characters !== 'B'
    else if (reset || soft) {
      this.#modes.clear()
      this.#isStyled = this.#hasKeyModes = this.#hasMargins = this.#hasCursorStyle = false
      this.#hasKeypad = this.#hasCharacters = false
      this.#keyboards = 0
    }
  }

  #set(mode: string, isOn: boolean): void {
    if (stateless.has(mode) || mode === '') return
    if (isOn === usuallyOn.has(mode)) this.#modes.delete(mode)
    else this.#modes.add(mode)
  }

  /** Escape sequences that give the terminal back as it was; empty when the program has sent them itself. */
  restore(): string {
    const modes = [...this.#modes].reverse()
    const text = [
      this.#isStyled ? '\x1b[0m' : '',
      this.#hasCharacters ? '\x1b(B' : '',
      this.#hasMargins ? '\x1b7\x1b[r\x1b8' : '',
      this.#hasKeypad ? '\x1b>' : '',
      this.#hasKeyModes ? '\x1b[>4m' : '',
      this.#keyboards > 0 ? `\x1b[<${this.#keyboards}u` : '',
      this.#hasCursorStyle ? '\x1b[0 q' : '',
      ...modes.map((mode) => `\x1b[?${mode}${usuallyOn.has(mode) ? 'h' : 'l'}`),
    ].join('')
    this.#modes.clear()
    this.#isStyled = this.#hasCharacters = this.#hasMargins = this.#hasKeypad = this.#hasKeyModes = false
    this.#hasCursorStyle = false
    this.#keyboards = 0
    return text
  }
}
