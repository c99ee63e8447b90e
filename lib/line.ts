// A block of text to its lines, in two ways: lines that share the block's memory, and lines that own theirs.
import type { Block } from './delivery'

/** Cheap to make, but each line keeps the whole block alive. */
export function sharingLines(text: string): string[] {
  // Not split(): this is a fifth faster on blocks of some hundred lines.
  const lines: string[] = []
  let start = 0
  for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
    lines.push(text.slice(start, end))
    start = end + 1
  }
  lines.push(start === 0 ? text : text.slice(start))
  return lines
}

const SCRATCH_BYTES = 256 << 10
let scratch: Buffer | undefined

/** Each line is a string of its own: whoever keeps one line of a block keeps no more than that line. */
export function ownLines({ text, wide }: Block): string[] {
  const width = wide ? 2 : 1
  const encoding = wide ? 'utf16le' : 'latin1'
  const bytes = text.length * width
  // JavaScript has no way to cut a string without sharing it; by way of bytes it costs half of what Node-API asks for a string.
  const memory = bytes <= SCRATCH_BYTES ? (scratch ??= Buffer.allocUnsafeSlow(SCRATCH_BYTES)) : undefined
  let written = memory
  const lines: string[] = []
  let start = 0
  for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', start)) {
    if (start === 0) (written ??= Buffer.allocUnsafeSlow(bytes)).write(text, encoding)
    lines.push(written!.toString(encoding, start * width, end * width))
    start = end + 1
  }
  // A block of one line is that line.
  lines.push(start === 0 ? text : written!.toString(encoding, start * width, bytes))
  return lines
}
