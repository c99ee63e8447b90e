// How many columns a text takes on a terminal. PURE. Where terminals differ, the larger number: a live line must never wrap.
import { stripVTControlCharacters } from 'node:util'

/** First and last code points that take two columns. */
const wide: [number, number][] = [
  [0x1100, 0x115f],
  [0x231a, 0x231b],
  [0x23e9, 0x23f3],
  [0x25fd, 0x25fe],
  [0x2600, 0x27bf],
  [0x2b1b, 0x2b1c],
  [0x2b50, 0x2b55],
  [0x2e80, 0x303e],
  [0x3041, 0xa4cf],
  [0xa960, 0xa97f],
  [0xac00, 0xd7a3],
  [0xf900, 0xfaff],
  [0xfe10, 0xfe19],
  [0xfe30, 0xfe6f],
  [0xff00, 0xff60],
  [0xffe0, 0xffe6],
  [0x16fe0, 0x1b2ff],
  [0x1f000, 0x1faff],
  [0x20000, 0x3fffd],
]
const ambiguous = /^[\p{Mn}\p{Me}\p{Cf}]$/u

function columnsOf(character: string): number {
  const code = character.codePointAt(0)!
  if (code < 0x300) return 1
  if (ambiguous.test(character)) return 0
  return wide.some(([first, last]) => code >= first && code <= last) ? 2 : 1
}

/** Columns of a text without control characters. */
export function displayWidth(text: string): number {
  let width = 0
  for (const character of text) width += columnsOf(character)
  return width
}

/** The text, or its beginning and "…" when it takes more columns than there are. */
export function fitWidth(text: string, columns: number): string {
  if (columns <= 0) return ''
  let width = 0
  let fitting = ''
  for (const character of text) {
    width += columnsOf(character)
    if (width > columns) return `${fitting}…`
    // One column is kept for the ellipsis.
    if (width < columns) fitting += character
  }
  return text
}

/** One line of plain text: no colours, no cursor movements, no line ends, tabs as spaces. */
export function plainText(text: string): string {
  // Long lines are cut first: only their beginning can be shown.
  return (
    stripVTControlCharacters(text.slice(0, 2000))
      .replace(/\s+/g, ' ')
      // eslint-disable-next-line no-control-regex
      .replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g, '')
      .trim()
  )
}
