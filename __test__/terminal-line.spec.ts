// One line of output as a terminal shows it: what is overwritten is gone, colours go on from line to line, other sequences vanish.
import { expect, it } from 'vitest'
import { plainLine, styleAfter, terminalLine } from '../dist/cli/view/terminal_line'

it.each([
  ['plain', 'plain'],
  ['at 10%\rat 100%', 'at 100%'],
  ['longer\rshort', 'shortr'],
  ['longer\r\u001b[Kshort', 'short'],
  ['\u001b[2K\rdone\r', 'done'],
  ['abc\b\bX', 'aXc'],
  ['a\tb', 'a       b'],
  ['\u001b]0;a title\u0007text\u001b]8;;http://x\u001b\\link\u001b]8;;\u001b\\', 'textlink'],
  ['\u001b[32mok\u001b[0m', 'ok'],
  ['\u001b[3Gx', '  x'],
  ['<b>\u0000\u0007&amp;', '<b>&amp;'],
])('%j is seen as %j', (text, seen) => {
  expect(plainLine(text)).toBe(seen)
  expect(
    terminalLine(text)
      .map((span) => span.text)
      .join(''),
  ).toBe(seen)
})

it('colours and decorations become classes, and colours beyond the sixteen their numbers', () => {
  expect(terminalLine('a\u001b[1;31mb\u001b[0mc')).toEqual([
    { text: 'a' },
    { text: 'b', style: 'bold fg-red' },
    { text: 'c' },
  ])
  expect(terminalLine('\u001b[38;5;208mx')).toEqual([{ text: 'x', color: '255, 135, 0' }])
  expect(terminalLine('\u001b[48;2;1;2;3mx')).toEqual([{ text: 'x', background: '1, 2, 3' }])
  expect(terminalLine('\u001b[7;32mx')).toEqual([{ text: 'x', style: 'fg-black bg-green' }])
  // Text that replaces other text has its own colour.
  expect(terminalLine('\u001b[31mred\u001b[0m\rR')).toEqual([{ text: 'R' }, { text: 'ed', style: 'fg-red' }])
})

it('a style goes on in the next line until it is reset', () => {
  const red = styleAfter('\u001b[31mred goes on', undefined)
  expect(terminalLine('still red\u001b[0m, plain', red)).toEqual([
    { text: 'still red', style: 'fg-red' },
    { text: ', plain' },
  ])
  expect(terminalLine('over\rwritten', red)).toEqual([{ text: 'written', style: 'fg-red' }])
  expect(styleAfter('still red\u001b[0m, plain', red)).toBeUndefined()
  expect(styleAfter('no sequence', red)).toBe(red)
  expect(styleAfter('\u001b[0m\u001b[1m', red)).toMatchObject({ fg: null, decorations: ['bold'] })
})

it('movements cost no more than a wide line', () => {
  expect(plainLine(`${'\u001b[9999C'.repeat(1000)}x`).length).toBeLessThanOrEqual(16_384)
  expect(terminalLine(`${'\u001b[1m\u001b[31mx'.repeat(1000)}`).at(-1)).toEqual({
    text: 'x',
    style: 'bold fg-red',
  })
  expect(plainLine('\u001b[')).toBe('')
})
