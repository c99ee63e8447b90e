// The picture in the README: a terminal, and what it showed when.
import { describe, expect, it } from 'vitest'
import { renderPicture } from '../trials/recording/picture.mjs'
import { Screen } from '../trials/recording/screen.mjs'
import { eraseLive } from '../cli/live'

const shown = (screen: Screen) => screen.rows().map((spans) => spans.map(({ text }) => text).join(''))

describe('the screen', () => {
  it('shows lines, wraps long ones, and takes a live line away as a terminal does', () => {
    const screen = new Screen(10)
    screen.write('one\r\nlive line 12')
    expect(shown(screen)).toEqual(['one', 'live line ', '12'])
    screen.write(eraseLive(12, 10))
    expect(shown(screen)).toEqual(['one', ''])
    screen.write('two\rT')
    expect(shown(screen)).toEqual(['one', 'Two'])
  })

  it('keeps colours', () => {
    const screen = new Screen(20)
    screen.write('\u001b[1;36mpi\u001b[0m · \u001b[2msilent\u001b[0m')
    expect(screen.rows()[0]).toEqual([
      { text: 'pi', colour: 'cyan', isBold: true, isDim: false },
      { text: ' · ', colour: '', isBold: false, isDim: false },
      { text: 'silent', colour: '', isBold: false, isDim: true },
    ])
  })
})

describe('the picture', () => {
  it('shows each text from when to when it was there', () => {
    const span = (text: string) => [{ text, colour: '', isBold: false, isDim: false }]
    const frames = [
      { atMs: 0, rows: [span('a <b>')] },
      { atMs: 5000, rows: [span('a <b>'), span('c')] },
    ]
    const picture = renderPicture(frames, { columns: 20, title: 'x' })
    // It lasts for 10 s: the last rests for 5.
    expect(picture).toMatch(/<text x="16" y="[\d.]+">a &#60;b&#62;<\/text>/)
    expect(picture).toMatch(/@keyframes m0\{0%\{visibility:hidden\}50\.00%\{visibility:visible\}\}/)
    expect(picture).toMatch(/<text [^>]*class="t m0 last">c<\/text>/)
  })
})
