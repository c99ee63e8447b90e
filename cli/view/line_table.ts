// The place of each line of a run's output: 18 bytes for a line, however long it is. PURE.
import type { Style } from './terminal_line'

export type StreamName = 'stdout' | 'stderr'

export interface LineEntry {
  stream: StreamName
  /** Position of its first byte in the stream's file. */
  offset: number
  /** With its line feed. */
  bytes: number
  /** When its first byte was read. */
  ms: number
  /** The style that it begins in. */
  style: Style | undefined
}

/** More styles at the beginning of lines than this are not told apart. */
const mostStyles = 32_767

export class LineTable {
  #length = 0
  #offsets = new Float64Array(1024)
  #bytes = new Uint32Array(1024)
  #ms = new Uint32Array(1024)
  /** The lowest bit: stderr. The others: the number of its style. */
  #kinds = new Uint16Array(1024)
  readonly #styles: (Style | undefined)[] = [undefined]
  readonly #numbers = new Map<string, number>()

  get length(): number {
    return this.#length
  }

  /** Adds an empty line; its number. */
  begin(stream: StreamName, offset: number, ms: number, style: Style | undefined): number {
    if (this.#length === this.#offsets.length) this.#grow()
    const at = this.#length++
    this.#offsets[at] = offset
    this.#ms[at] = Math.min(ms, 0xffff_ffff)
    this.#kinds[at] = (this.#numberOf(style) << 1) | (stream === 'stderr' ? 1 : 0)
    return at
  }

  extend(line: number, bytes: number): void {
    this.#bytes[line] = Math.min(this.#bytes[line]! + bytes, 0xffff_ffff)
  }

  at(line: number): LineEntry {
    const kind = this.#kinds[line]!
    return {
      stream: kind & 1 ? 'stderr' : 'stdout',
      offset: this.#offsets[line]!,
      bytes: this.#bytes[line]!,
      ms: this.#ms[line]!,
      style: this.#styles[kind >> 1],
    }
  }

  ms(line: number): number {
    return this.#ms[line] ?? 0
  }

  #numberOf(style: Style | undefined): number {
    if (!style) return 0
    const key = JSON.stringify(style)
    let number = this.#numbers.get(key)
    if (number === undefined) {
      if (this.#styles.length > mostStyles) return 0
      number = this.#styles.push(style) - 1
      this.#numbers.set(key, number)
    }
    return number
  }

  #grow(): void {
    const grown = <T extends Float64Array | Uint32Array | Uint16Array>(from: T, to: T): T => {
      to.set(from)
      return to
    }
    const size = this.#offsets.length * 2
    this.#offsets = grown(this.#offsets, new Float64Array(size))
    this.#bytes = grown(this.#bytes, new Uint32Array(size))
    this.#ms = grown(this.#ms, new Uint32Array(size))
    this.#kinds = grown(this.#kinds, new Uint16Array(size))
  }
}
