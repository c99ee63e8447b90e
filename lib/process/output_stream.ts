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
  let failure: Error | undefined
  const stream: Readable = new Readable({
    read() {
      if (failure) return fail(failure)
      const next = async () => (bytes ??= begin()).next()
      next().then(({ value, done }) => stream.push(done ? null : value), fail)
    },
    destroy(error, done) {
      const leave = async () => (bytes ??= begin()).return?.()
      callbackify(leave)(() => done(error))
    },
  })
  function fail(error: Error): void {
    failure = error
    // Bytes that were read before the failure are delivered before it: an empty chunk asks for the next read.
    if (stream.readableLength > 0) stream.push(nothing)
    else if (isToldElsewhere(error)) endWith(stream, error)
    else stream.destroy(error)
  }
  return stream
}

const nothing = new Uint8Array()

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
    const heard = stream.rawListeners('error').map((listener) => isHeard(listener, stream, error))
    // A reader of lines whose user listens to no errors gets the end, as with child_process.
    return !heard.includes(false) || emit.call(stream, 'end')
  }
  stream.destroy(error)
}

/**
 * Tells one listener. False for one that passes the error on to an emitter of its own where nobody listens, as readline does:
 * Node marks an error that an emitter throws for that reason.
 */
function isHeard(listener: Function, stream: Readable, error: Error): boolean {
  const marks = Object.getOwnPropertySymbols(error).length
  try {
    listener.call(stream, error)
    return true
  } catch (thrown) {
    if (thrown !== error || Object.getOwnPropertySymbols(error).length === marks) throw thrown
    return false
  }
}
