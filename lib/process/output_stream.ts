// stdout of a process as streams. Each is read lazily: a stream that nobody reads takes nothing from other readers.
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

/** @param isToldElsewhere whether `result` rejects with this error */
export function nodeStream(begin: Begin, isToldElsewhere: (error: unknown) => boolean): Readable {
  let bytes: AsyncIterator<Uint8Array> | undefined
  const stream: Readable = new Readable({
    read() {
      const next = async () => (bytes ??= begin()).next()
      next().then(
        ({ value, done }) => stream.push(done ? null : value),
        (error: Error) => {
          if (isToldElsewhere(error)) endWith(stream, error)
          else stream.destroy(error)
        },
      )
    },
    destroy(error, done) {
      const leave = async () => (bytes ??= begin()).return?.()
      callbackify(leave)(() => done(error))
    },
  })
  return stream
}

/**
 * Ends a stream whose run failed, an error that `result` tells. A stream without a listener for errors ends as the one of
 * child_process does, and what it is piped into is finished. With one, as in a pipeline and in `for await`, it is destroyed.
 */
function endWith(stream: Readable, error: Error): void {
  if (stream.listenerCount('error') === 0) {
    stream.push(null)
    return
  }
  const { emit } = stream
  stream.emit = (event: string | symbol, ...args: unknown[]) => {
    if (event !== 'error') return emit.call(stream, event, ...args)
    const marks = Object.getOwnPropertySymbols(error).length
    try {
      return emit.call(stream, event, ...args)
    } catch (thrown) {
      // readline passes an error on to an emitter of its own. Node marks an error that an emitter throws because nobody
      // listens: nobody listens there, so that stream gets its end as without a listener.
      if (thrown !== error || Object.getOwnPropertySymbols(error).length === marks) throw thrown
      return emit.call(stream, 'end')
    }
  }
  stream.destroy(error)
}
