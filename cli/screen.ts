// The one writer of the command: what an agent, a model or a program said reaches the terminal as text, never as a control
// sequence. Only `passThrough` writes bytes as they are: the output of the program that `sheepdog run` watches, and a data
// stream that goes to a file or a pipe.
import { StringDecoder } from 'node:string_decoder'
import { stripVTControlCharacters } from 'node:util'

export type StreamName = 'stdout' | 'stderr'

/** C0 but tab and line feed, DEL, C1, and the characters that reorder the text around them. */
// eslint-disable-next-line no-control-regex
const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g

/** Text that a terminal only prints: a lone carriage return becomes a line feed, other control characters are removed. PURE. */
export function harmless(text: string): string {
  return stripVTControlCharacters(text)
    .replace(/\r+\n?/g, '\n')
    .replace(controls, '')
}

/** JSON on one line, or indented; control characters that JSON allows in strings are escaped. PURE. */
export function json(value: unknown, indent?: number): string {
  const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(value, null, indent).replace(/[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, escaped)
}

/** A line on stdout. */
export function print(line: string): void {
  put('stdout', `${line}\n`)
}

/** A line on stderr. */
export function tell(line: string): void {
  put('stderr', `${line}\n`)
}

/** Text on a stream. False when its reader is behind. */
export function put(name: StreamName, text: string): boolean {
  return process[name].write(harmless(text))
}

/** Bytes of a program whose output is passed through. False when the reader is behind. */
export function passThrough(name: StreamName, data: string | Uint8Array): boolean {
  return process[name].write(data)
}

/** Writes a recorded or remote stream: as it is to a file or a pipe, made harmless on a terminal. */
export class DataStream {
  readonly #name: StreamName
  readonly #decoder = new StringDecoder('utf8')

  constructor(name: StreamName) {
    this.#name = name
  }

  /** The bytes or the text to write for this piece. */
  fit(piece: string | Uint8Array): string | Uint8Array {
    if (!process[this.#name].isTTY) return piece
    return harmless(typeof piece === 'string' ? piece : this.#decoder.write(Buffer.from(piece)))
  }
}
