// One line of a program's output as a terminal shows it: carriage returns, backspaces and colours applied. PURE.
import Anser = require('./vendor/anser')

/** A piece of a line in one style. `style` holds class names; `color` and `background` are "R, G, B". */
export interface Span {
  text: string
  style?: string
  color?: string
  background?: string
}

/** The colours and decorations that are on at some place of the output. */
export interface Style {
  fg: string | null
  bg: string | null
  fg_truecolor: string | null
  bg_truecolor: string | null
  decorations: string[]
}

type Parser = InstanceType<typeof Anser> & Style

const sgr = /\u001b\[[\d;:]*m/g
const reset = /^\u001b\[0?m$/
// CSI, OSC and other strings up to their end, two-character escapes.
const sequence =
  /\u001b\[([0-?]*)[ -/]*([@-~])|\u001b[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\|$)|\u001b[ -/]*[0-~]|\u001b/y
const tabWidth = 8

function parser(style: Style | undefined): Parser {
  const made = new Anser() as Parser
  if (style) Object.assign(made, style, { decorations: [...style.decorations] })
  return made
}

/** The style behind this text; undefined: the default one. */
export function styleAfter(text: string, style: Style | undefined): Style | undefined {
  const all = text.match(sgr)
  if (!all) return style
  const last = all.findLastIndex((one) => reset.test(one))
  const open = all.slice(last + 1)
  if (open.length === 0) return undefined
  const after = parser(last >= 0 ? undefined : style)
  after.ansiToJson(open.join('').replaceAll(':', ';'), { use_classes: true })
  const { fg, bg, fg_truecolor, bg_truecolor, decorations } = after
  if (fg === null && bg === null && decorations.length === 0) return undefined
  return { fg, bg, fg_truecolor, bg_truecolor, decorations: [...new Set(decorations)] }
}

/** The pieces of a line; `text` is without its line feed. */
export function terminalLine(text: string, style?: Style): Span[] {
  return segmentsOf(text).flatMap(({ text: part, codes }) => {
    const isPlain = codes === '' || (codes === inherited && !style)
    if (isPlain) return [{ text: part }]
    const start = codes.startsWith(inherited) ? style : undefined
    const entries = parser(start).ansiToJson(codes.replace(inherited, '') + part, { use_classes: true })
    // The library leaves out the style of a text that no sequence stands before.
    if (codes === inherited) Object.assign(entries[0]!, start)
    return entries.filter(({ content }) => content !== '').map(spanOf)
  })
}

type Entry = Style & { content: string }

function spanOf({ content, fg, bg, fg_truecolor, bg_truecolor, decorations }: Entry): Span {
  const names = new Set<string>(decorations)
  const fore = colourOf(fg, fg_truecolor)
  const ground = colourOf(bg, bg_truecolor)
  if (fore?.name) names.add(`fg-${fore.name}`)
  if (ground?.name) names.add(`bg-${ground.name}`)
  const span: Span = { text: content }
  if (names.size > 0) span.style = [...names].join(' ')
  if (fore?.rgb) span.color = fore.rgb
  if (ground?.rgb) span.background = ground.rgb
  return span
}

/** A name of the 16 colours, which the page's theme has, or red, green and blue. */
function colourOf(
  name: string | null,
  truecolor: string | null,
): { name?: string; rgb?: string } | undefined {
  if (name === null) return undefined
  if (name === 'ansi-truecolor') return truecolor ? { rgb: truecolor } : undefined
  const [, palette] = /^ansi-palette-(\d+)$/.exec(name) ?? []
  if (palette === undefined) return { name: name.replace(/^ansi-/, '') }
  return { rgb: paletteColour(Number(palette)) }
}

/** Colours 16 to 255: a cube, and greys. */
function paletteColour(index: number): string {
  if (index >= 232)
    return Array(3)
      .fill(8 + (index - 232) * 10)
      .join(', ')
  const level = (value: number) => (value === 0 ? 0 : 55 + value * 40)
  const at = index - 16
  return [Math.floor(at / 36), Math.floor(at / 6) % 6, at % 6].map(level).join(', ')
}

/** A text in one style: the sequences since the last reset, or since the beginning of the line and its style. */
interface Segment {
  text: string
  codes: string
}

interface Cell {
  character: string
  codes: string
}

/** Begins the codes of a text that has the style of the line's beginning. */
const inherited = '\n'
/** Longest sequences of one text. */
const mostCodes = 200
/** No line is wider: movements reach no further. */
const mostColumns = 16_384

/** The text that stands in the line at its end. */
function segmentsOf(line: string): Segment[] {
  let end = line.length
  // Not by a pattern: one that begins to match at each of a million carriage returns takes minutes.
  while (line[end - 1] === '\r') end--
  const text = line.slice(0, end)
  // eslint-disable-next-line no-control-regex
  if (!/[\u0000-\u001f\u007f-\u009f]/.test(text)) return text === '' ? [] : [{ text, codes: inherited }]
  const cells: Cell[] = []
  let column = 0
  let codes = inherited
  const put = (character: string) => {
    if (column >= mostColumns) return
    while (cells.length < column) cells.push({ character: ' ', codes: '' })
    cells[column++] = { character, codes }
  }
  for (let at = 0; at < text.length;) {
    const character = String.fromCodePoint(text.codePointAt(at)!)
    if (character === '\u001b') {
      sequence.lastIndex = at
      const [whole, parameters = '', final] = sequence.exec(text)!
      at += whole.length
      if (final === 'm') codes = reset.test(whole) ? '' : shortened(codes + whole.replaceAll(':', ';'))
      else if (final !== undefined) column = moved(cells, column, final, parameters)
      continue
    }
    at += character.length
    const code = character.codePointAt(0)!
    if (character === '\r') column = 0
    else if (character === '\b') column = Math.max(0, column - 1)
    else if (character === '\t') for (let left = tabWidth - (column % tabWidth); left > 0; left--) put(' ')
    else if (code >= 0x20 && !(code >= 0x7f && code <= 0x9f)) put(character)
  }
  const segments: Segment[] = []
  for (const cell of cells) {
    const last = segments.at(-1)
    if (last?.codes === cell.codes) last.text += cell.character
    else segments.push({ text: cell.character, codes: cell.codes })
  }
  return segments
}

/** The newest sequences: a program that never resets its style must not cost more with each one. */
function shortened(codes: string): string {
  if (codes.length <= mostCodes) return codes
  const kept = codes.slice(codes.indexOf('\u001b', codes.length - mostCodes / 2))
  return codes.startsWith(inherited) ? inherited + kept : kept
}

/** Movements and deletions within the line; the new column. Others are left out. */
function moved(cells: Cell[], column: number, final: string, parameters: string) {
  const number = Math.min(Number.parseInt(parameters, 10) || 0, 10_000)
  switch (final) {
    case 'K':
      if (number === 0) cells.length = Math.min(cells.length, column)
      else if (number === 1)
        for (let at = 0; at <= column && at < cells.length; at++) cells[at] = { character: ' ', codes: '' }
      else cells.length = 0
      return column
    case 'G':
      return Math.min(Math.max(0, number - 1), mostColumns)
    case 'C':
      return Math.min(column + Math.max(1, number), mostColumns)
    case 'D':
      return Math.max(0, column - Math.max(1, number))
    case 'J':
      if (number >= 2) cells.length = 0
      return column
    default:
      return column
  }
}

/** The text of a line as it is seen. */
export function plainLine(text: string): string {
  return segmentsOf(text)
    .map((segment) => segment.text)
    .join('')
}

/** A text without its colours; other sequences stay. */
export function withoutColours(text: string): string {
  return text.replace(sgr, '')
}
