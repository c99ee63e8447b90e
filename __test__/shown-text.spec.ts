// The text of a terminal, and the time that it takes whatever a program prints.
import { describe, expect, it } from 'vitest'
import { terminalLine } from '../dist/cli/view/terminal_line'
import { ShownText } from '../lib/process/shown_text'

const encoder = new TextEncoder()

function shown(...pieces: string[]): string {
  const text = new ShownText()
  return pieces.map((piece) => text.push(encoder.encode(piece))).join('') + text.end()
}

const cases: [printed: string, shown: string][] = [
  ['a\r\nb', 'a\nb'],
  ['a\r\r\nb', 'a\nb'],
  ['\r\rfirst\n\rsecond', 'first\nsecond'],
  ['10%\r20%\r', '10%\r20%\r'],
  ['a\r\u001b[K\nb', 'a\nb'],
  ['\u001b[1;31mred\u001b[0m \u001b]0;title\u0007x\u001b]8;;u\u001b\\y\u001bPq\u001b\\z', 'red xyz'],
  ['\u001b(Ba\u001b=b\u001b[', 'ab['],
  ['a\u0000b\u007fc\u009b1m', 'abc1m'],
  ['\u001b[0\u00e9', '[0\u00e9'],
]

describe('the text that a terminal shows', () => {
  it.each(cases)('of %j, whole or cut anywhere', (printed, expected) => {
    expect(shown(printed)).toBe(expected)
    expect(shown(...printed)).toBe(expected)
    for (let at = 1; at < printed.length; at++)
      expect(shown(printed.slice(0, at), printed.slice(at))).toBe(expected)
  })
})

/** Characters that a pattern repeats or begins with. */
const characters = [
  '\r',
  '\n',
  '\u001b',
  ' ',
  '0',
  '[',
  ']',
  'P',
  '/',
  '?',
  '\u0007',
  '\\',
  '@',
  '\u009b',
  'x',
]
const leads = ['', '\u001b[', '\u001b]', '\u001bP', '\u001b ', '\r']
const texts = [
  ...leads.flatMap((lead) => characters.map((character) => `${lead}${character.repeat(500_000)}!`)),
  ...characters.flatMap((one) => characters.map((other) => `${(one + other).repeat(50_000)}!`)),
]

it('takes a time that grows with the output alone', { timeout: 120_000 }, () => {
  const slow = texts.filter((text) => {
    const began = performance.now()
    shown(text)
    terminalLine(text)
    // A square of these lengths takes minutes.
    return performance.now() - began > 5_000
  })
  expect(slow.map((text) => JSON.stringify(text.slice(0, 8)))).toEqual([])
})
