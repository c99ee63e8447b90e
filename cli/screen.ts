// The one writer of the command: what an agent, a model or a program said reaches the terminal as text, never as a control
// sequence. Only `passThrough` writes bytes as they are: the output of the program that `sheepdog run` watches, and a data
// stream that goes to a file or a pipe.
import { Writable } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import { harmless } from '../lib/plain-text'

export { harmless }

export type StreamName = 'stdout' | 'stderr'

/** Characters that show as nothing, as something else, or that move text. A plain space is none of them. */
const unseen = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]|(?! )\p{Zs}/gu

/** One line in which nothing is hidden: each character that a person can't see is written as its number. PURE. */
export function visible(text: string): string {
  const name = (character: string) =>
    character === '\t'
      ? '    '
      : `<U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}>`
  return text.replace(unseen, name)
}

/** JSON on one line, or indented; control characters that JSON allows in strings are escaped. PURE. */
export function json(value: unknown, indent?: number): string {
  const escaped = (character: string) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(value, null, indent).replace(
    /[\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    escaped,
  )
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

/** Resolves when the stream's reader has room for more; false when nobody reads it any more. */
export async function room(name: StreamName): Promise<boolean> {
  const stream = process[name]
  const isGone = () => stream.destroyed || stream.errored != null
  if (stream.writableNeedDrain && !isGone())
    await new Promise<void>((resolve) => {
      const events = ['drain', 'error', 'close'] as const
      const done = () => {
        for (const event of events) stream.off(event, done)
        resolve()
      }
      for (const event of events) stream.on(event, done)
    })
  return !isGone()
}

/** Bytes of a program whose output is passed through. False when the reader is behind. */
export function passThrough(name: StreamName, data: string | Uint8Array): boolean {
  return process[name].write(data)
}

/** Writes a recorded or remote stream: as it is to a file or a pipe, made harmless on a terminal. */
export class DataStream {
  readonly #decoder = new StringDecoder('utf8')

  constructor(private readonly name: StreamName) {}

  /** The bytes or the text to write for this piece. */
  fit(piece: string | Uint8Array): string | Uint8Array {
    if (!process[this.name].isTTY) return piece
    return harmless(typeof piece === 'string' ? piece : this.#decoder.write(Buffer.from(piece)))
  }
}

/** A stream for what another program logs. It takes a piece when the reader has taken the one before, or is gone. */
export function logStream(name: StreamName): Writable {
  const data = new DataStream(name)
  return new Writable({
    write: (piece: Uint8Array, _, done) => void process[name].write(data.fit(piece), () => done()),
  })
}
