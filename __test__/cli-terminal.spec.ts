// What is typed into a program's terminal, by a terminal that is made up.
import { EventEmitter } from 'node:events'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { RunningProcess } from '../lib/index'
import { LentTerminal } from '../cli/terminal'
import { TerminalModes } from '../cli/terminal_modes'

class MadeUpStdin extends EventEmitter {
  isTTY = true
  isRaw = false
  isRead = true
  setRawMode(raw: boolean) {
    this.isRaw = raw
    return this
  }
  pause() {
    this.isRead = false
    return this
  }
  resume() {
    this.isRead = true
    return this
  }
}

it('is not read any more when the last key is taken after the end', async () => {
  const own = Object.getOwnPropertyDescriptor(process, 'stdin')!
  const stdin = new MadeUpStdin()
  Object.defineProperty(process, 'stdin', { configurable: true, value: stdin })
  onTestFinished(() => void Object.defineProperty(process, 'stdin', own))
  const taken: (() => void)[] = []
  const write = () => new Promise<void>((resolve) => taken.push(resolve))
  const terminal = new LentTerminal({ stdin: { write } } as unknown as RunningProcess)
  stdin.emit('data', Buffer.from('x'))
  expect(stdin).toMatchObject({ isRaw: true, isRead: false })
  taken.shift()!()
  await Promise.resolve()
  expect(stdin.isRead).toBe(true)
  stdin.emit('data', Buffer.from('\u0003'))
  terminal.giveBack()
  taken.shift()!()
  await Promise.resolve()
  expect(stdin).toMatchObject({ isRaw: false, isRead: false })
})

describe('modes of the screen', () => {
  const restored = (...pieces: string[]) => {
    const modes = new TerminalModes()
    for (const piece of pieces) modes.push(Buffer.from(piece))
    return modes.restore()
  }

  it.each([
    ['nothing was set', ['hello\r\n'], ''],
    ['all is taken back', ['\x1b[?1049h\x1b[?25l\x1b[31mx\x1b[0m\x1b[?25h\x1b[?1049l'], ''],
    [
      'a full screen',
      ['\x1b[?1049h\x1b[?1000;1006h\x1b[?2004h\x1b[?25l'],
      '\x1b[?25h\x1b[?2004l\x1b[?1006l\x1b[?1000l\x1b[?1049l',
    ],
    ['sequences over two pieces', ['\x1b[?10', '49', 'h', 'text\x1b'], '\x1b[?1049l'],
    ['colours', ['\x1b[1;31mx'], '\x1b[0m'],
    ['lines without wrapping', ['\x1b[?7l'], '\x1b[?7h'],
    ['keyboard and keypad', ['\x1b[>1u\x1b[>5u\x1b=\x1b[>4;2m'], '\x1b>\x1b[>4m\x1b[<2u'],
    ['line drawing, margins, a cursor', ['\x1b(0\x1b[2;5r\x1b[4 q'], '\x1b(B\x1b7\x1b[r\x1b8\x1b[0 q'],
    ['a reset', ['\x1b[?1049h\x1b[31m', '\x1bc'], ''],
  ])('are given back: %s', (_, pieces, expected) => expect(restored(...pieces)).toBe(expected))

  it('costs time that grows with the output alone, whatever it is', () => {
    for (const character of ['\x1b', '\x1b[', '\x1b[?', ';', '\x1b[?1;', '0'])
      restored(character.repeat(1_000_000 / character.length))
  }, 20_000)
})
