import { describe, expect, it } from 'vitest'
import { showBytes, showClock, showDuration } from '../cli/figure'
import { wantsColour } from '../cli/colour'
import { eraseLive, liveState, renderLive } from '../cli/live'
import { displayWidth, fitWidth, plainText } from '../cli/width'

const state = (changes = {}) => ({ ...liveState('codex', 0), ...changes })

describe('renderLive', () => {
  it('says what runs, for how long, how much it printed and what came last', () => {
    const line = renderLive(
      state({ lines: 12, bytes: 3400, lastMs: 71_500, last: 'compiling core' }),
      72_000,
      100,
    )
    expect(line).toBe('1:12 · codex · 12 lines, 3.4 kB · compiling core')
  })

  it('tells silence from the second second on, with the limit where one is known', () => {
    expect(renderLive(state({ lastMs: 8001 }), 10_000, 80)).toBe('0:10 · codex')
    expect(renderLive(state({ lastMs: 8000 }), 10_000, 80)).toBe('0:10 · codex · silent 0:02')
    expect(renderLive(state({ idleLimitMs: 120_000 }), 61_000, 80)).toBe('1:01 · codex · silent 1:01 of 2:00')
    expect(renderLive(state({ idleLimitMs: Infinity }), 61_000, 80)).toBe('1:01 · codex · silent 1:01')
  })

  it('tells the tool in progress, the tokens, and a note in place of the silence', () => {
    expect(renderLive(state({ tool: 'bash', tokens: 900 }), 5000, 80)).toBe(
      '0:05 · codex · silent 0:05 · tool bash · 900 tokens',
    )
    expect(renderLive(state({ note: 'stopping' }), 5000, 80)).toBe('0:05 · codex · stopping')
  })

  it('never takes more columns than there are, whatever comes', () => {
    const lasts = [
      '漢字'.repeat(80),
      '👩‍👩‍👧'.repeat(40),
      'x'.repeat(300_000),
      '\u001b[31mred\u001b[0m\t\r\n',
      'e\u0301'.repeat(90),
      '',
    ]
    for (const last of lasts) {
      for (let columns = 0; columns <= 130; columns++) {
        const line = renderLive(
          state({ last, lines: 7, bytes: 7e9, tool: '漢'.repeat(9), tokens: 5, lastMs: -9e6 }),
          9e6,
          columns,
        )
        expect(displayWidth(line), `${columns} columns`).toBeLessThanOrEqual(columns)
        expect(line).not.toMatch(/[\u0000-\u001f]/)
      }
    }
  })

  it('leaves out what matters less first', () => {
    const full = state({ lines: 12, bytes: 3400, last: 'compiling core', idleLimitMs: 60_000 })
    expect(renderLive(full, 30_000, 90)).toBe(
      '0:30 · codex · silent 0:30 of 1:00 · 12 lines, 3.4 kB · compiling core',
    )
    expect(renderLive(full, 30_000, 50)).toBe('0:30 · codex · silent 0:30 of 1:00 · compiling co…')
    expect(renderLive(full, 30_000, 40)).toBe('0:30 · codex · silent 0:30 of 1:00')
    expect(renderLive(full, 30_000, 20)).toBe('0:30 · codex')
    expect(renderLive(full, 30_000, 10)).toBe('0:30 · co…')
    expect(renderLive(full, 30_000, 3)).toBe('0:…')
  })

  it('has colours only when asked, and the same words with them', () => {
    const full = state({ lines: 12, bytes: 3400, last: 'compiling core' })
    const coloured = renderLive(full, 30_000, 80, true)
    expect(coloured).toContain('\u001b[')
    expect(plainText(coloured)).toBe(renderLive(full, 30_000, 80))
  })

  it('wants colours of a terminal only, unless NO_COLOR or a dumb one says otherwise', () => {
    expect(wantsColour({ isTTY: true }, {})).toBe(true)
    expect(wantsColour({ isTTY: true }, { NO_COLOR: '1' })).toBe(false)
    expect(wantsColour({ isTTY: true }, { TERM: 'dumb' })).toBe(false)
    expect(wantsColour({}, {})).toBe(false)
  })
})

describe('eraseLive', () => {
  it('takes away one row, or the rows that a narrower terminal has made of it', () => {
    expect(eraseLive(0, 80)).toBe('')
    expect(eraseLive(77, 80)).toBe('\r\u001b[K')
    expect(eraseLive(77, 40)).toBe('\u001b[1A\r\u001b[J')
    expect(eraseLive(77, 30)).toBe('\u001b[2A\r\u001b[J')
    expect(eraseLive(77, 0)).toContain('\r\u001b[J')
  })
})

describe('widths and figures', () => {
  it('counts wide characters as two columns and marks as none', () => {
    expect(displayWidth('abc')).toBe(3)
    expect(displayWidth('漢字')).toBe(4)
    expect(displayWidth('e\u0301')).toBe(1)
    expect(displayWidth('✅')).toBe(2)
    expect(fitWidth('漢字かな', 5)).toBe('漢字…')
    expect(fitWidth('漢字かな', 4)).toBe('漢…')
    expect(fitWidth('漢字', 4)).toBe('漢字')
    expect(fitWidth('abc', 0)).toBe('')
  })

  it('makes one plain line of anything', () => {
    expect(plainText('\u001b[1;31merror\u001b[0m:\tno\r\n\u0007\u202eyes\u0000 ')).toBe('error: no yes')
  })

  it('reads well', () => {
    expect([0, 12.4, 999.4, 999.6, 59_900, 59_960, 61_000, 3_723_000].map(showDuration)).toEqual([
      '0 ms',
      '12 ms',
      '999 ms',
      '1.0 s',
      '59.9 s',
      '1:00',
      '1:01',
      '1:02:03',
    ])
    expect([0, 999, 1000, 99_940, 999_600, 1.2e6, 4.5e9, 7e15].map(showBytes)).toEqual([
      '0 B',
      '999 B',
      '1.0 kB',
      '99.9 kB',
      '1.0 MB',
      '1.2 MB',
      '4.5 GB',
      '7000 TB',
    ])
    expect([0, 59_999, 60_000, -5].map(showClock)).toEqual(['0:00', '0:59', '1:00', '0:00'])
  })
})
