// A small terminal: text, colours, line ends and the few movements that our live line makes. PURE.

/** Colours of SGR 30 to 37, as names of the picture's classes. */
const colours = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white']
const plain = { colour: '', isBold: false, isDim: false }

export class Screen {
  #columns
  #rows = [[]]
  #row = 0
  #column = 0
  #style = plain

  constructor(columns) {
    this.#columns = columns
  }

  write(text) {
    // A sequence, a control, or a run of text.
    for (const [part] of text.matchAll(/\u001b\[[\d;?]*[A-Za-z]|[\r\n\b]|[^\u001b\r\n\b]+/g)) {
      if (part.startsWith('\u001b[')) this.#control(part.slice(2, -1), part.at(-1))
      else if (part === '\r') this.#column = 0
      else if (part === '\n') this.#down()
      else if (part === '\b') this.#column = Math.max(0, this.#column - 1)
      else for (const character of part) this.#put(character)
    }
  }

  /** Each row as its spans of one style: `[{ text, colour, isBold, isDim }]`. */
  rows() {
    return this.#rows.map((cells) => {
      const spans = []
      for (const { character, style } of Array.from(
        cells,
        (cell) => cell ?? { character: ' ', style: plain },
      )) {
        const last = spans.at(-1)
        if (last && sameStyle(last, style)) last.text += character
        else spans.push({ text: character, ...style })
      }
      while (spans.length > 0 && spans.at(-1).text.trim() === '') spans.pop()
      return spans
    })
  }

  #put(character) {
    if (this.#column === this.#columns) {
      this.#column = 0
      this.#down()
    }
    this.#rows[this.#row][this.#column++] = { character, style: this.#style }
  }

  #down() {
    this.#row++
    if (this.#row === this.#rows.length) this.#rows.push([])
  }

  #control(parameters, letter) {
    const count = Number(parameters) || 1
    if (letter === 'A') this.#row = Math.max(0, this.#row - count)
    else if (letter === 'K') this.#rows[this.#row].length = this.#column
    else if (letter === 'J') {
      this.#rows[this.#row].length = Math.min(this.#column, this.#rows[this.#row].length)
      this.#rows.length = this.#row + 1
    } else if (letter === 'm') for (const code of parameters.split(';')) this.#styleBy(Number(code))
  }

  #styleBy(code) {
    if (code === 0) this.#style = plain
    else if (code === 1) this.#style = { ...this.#style, isBold: true }
    else if (code === 2) this.#style = { ...this.#style, isDim: true }
    else if (code >= 30 && code < 38) this.#style = { ...this.#style, colour: colours[code - 30] }
  }
}

function sameStyle(left, right) {
  return left.colour === right.colour && left.isBold === right.isBold && left.isDim === right.isDim
}
