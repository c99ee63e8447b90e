// A file of lines that grows: whole lines, each once, with the place where it stands. Symbolic links are not followed.
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'

const readBytes = 1 << 20

export interface LinePlace {
  text: string
  /** Position of the line's first byte. */
  offset: number
  /** With its end. */
  bytes: number
}

/** So many bytes of a file, or what there is of them; none when it is not there, or no file. */
export async function readRange(path: string, offset: number, bytes: number): Promise<Buffer> {
  let file
  try {
    // Not blocking: a pipe of that name would hold us up for ever.
    file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  } catch {
    return Buffer.alloc(0)
  }
  try {
    if (!(await file.stat()).isFile()) return Buffer.alloc(0)
    const buffer = Buffer.allocUnsafe(bytes)
    const { bytesRead } = await file.read(buffer, 0, bytes, offset)
    return buffer.subarray(0, bytesRead)
  } finally {
    await file.close()
  }
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
