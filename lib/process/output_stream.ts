// stdout of a process as streams. Each is asked for lazily: a stream that nobody reads is none.
import { Readable } from 'node:stream'
import { callbackify } from 'node:util'

/** An iteration begun by the first read; begun and left at once when nobody wants to read. */
export type Begin = () => AsyncIterator<Uint8Array>

export function webStream(begin: Begin): ReadableStream<Uint8Array> {
  let bytes: AsyncIterator<Uint8Array> | undefined
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { value, done } = await (bytes ??= begin()).next()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      async cancel() {
        await (bytes ??= begin()).return?.()
      },
    },
    // Nothing ahead of its reader: the pipe is ahead enough.
    { highWaterMark: 0 },
  )
}

export function nodeStream(begin: Begin): Readable {
  let bytes: AsyncIterator<Uint8Array> | undefined
  const stream: Readable = new Readable({
    read() {
      const next = async () => (bytes ??= begin()).next()
      next().then(
        ({ value, done }) => stream.push(done ? null : value),
        (error: Error) => stream.destroy(error),
      )
    },
    destroy(error, done) {
      const leave = async () => (bytes ??= begin()).return?.()
      callbackify(leave)(() => done(error))
    },
  })
  return stream
}
