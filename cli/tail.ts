// A file of lines that grows: whole lines, each once, with the place where it stands. Symbolic links are not followed.
import { readRange } from '../lib/harness/record_file'

const readBytes = 1 << 20

export interface LinePlace {
  text: string
  /** Position of the line's first byte. */
  offset: number
  /** With its end. */
  bytes: number
}

/** A file from its beginning to its present end. */
export async function* readPieces(path: string): AsyncGenerator<Buffer> {
  for (let offset = 0; ;) {
    const piece = await readRange(path, offset, readBytes)
    if (piece.length === 0) return
    offset += piece.length
    yield piece
  }
}

export class Tail {
  #offset = 0
  /** The beginning of a line whose end has not come. */
  #rest: Buffer[] = []
  #restBytes = 0

  constructor(readonly path: string) {}

  /** The lines that came since the last call, some of them: none means that there are no more for now. */
  async next(): Promise<LinePlace[]> {
    const chunk = await readRange(this.path, this.#offset + this.#restBytes, readBytes)
    if (chunk.length === 0) return []
    const end = chunk.lastIndexOf(10)
    if (end < 0) {
      this.#rest.push(chunk)
      this.#restBytes += chunk.length
      return this.next()
    }
    const whole = Buffer.concat([...this.#rest, chunk.subarray(0, end + 1)])
    const lines: LinePlace[] = []
    let from = 0
    for (let at = whole.indexOf(10); at >= 0; at = whole.indexOf(10, from)) {
      lines.push({
        text: whole.toString('utf8', from, at),
        offset: this.#offset + from,
        bytes: at + 1 - from,
      })
      from = at + 1
    }
    this.#offset += whole.length
    this.#rest = []
    this.#restBytes = 0
    return lines
  }
}
