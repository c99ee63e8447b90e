// The source of a program's input: where its chunks come from, and how they get to the program.
import type { Readable } from 'node:stream'
import { types } from 'node:util'
import { invalidOption } from '../error'
import { elapsedMs, nextTurn } from '../host'
import { show } from '../option'
import type { StdinQueue } from './stdin_queue'

/**
 * Input for a program: a text or bytes, a stream or an iterable of texts and bytes, or a file that
 * becomes the program's stdin.
 */
export type RunInput =
  | string
  | Uint8Array
  | ReadableStream
  | Readable
  | AsyncIterable<string | Uint8Array>
  | Iterable<string | Uint8Array>
  | {
      /**
       * Path or `file:` URL of the file, relative to `cwd`. The program reads it directly; the data does not
       * pass through this process.
       */
      file: string | URL
    }

interface Next {
  done?: boolean
  value?: unknown
}

/** Chunks as they come. Nothing is asked of it before `next()`. */
export interface Source {
  /** It is ours from now on: what it fails with before it is asked is told by `next()`, and to nobody else. */
  take(): void
  next(): Next | Promise<Next>
  /** Nobody wants more. */
  close(): void
}

interface WebReader {
  read(): Promise<{ done: boolean; value?: unknown }>
  cancel(): Promise<void>
}

/** `undefined`: it is no stream and no iterable. Throws for a stream that somebody else reads. */
export function sourceOf(path: string, from: unknown): Source | undefined {
  if (typeof from !== 'object' || from === null) return undefined
  if ('getReader' in from && typeof from.getReader === 'function') {
    if ('locked' in from && from.locked)
      throw invalidOption(path, 'the stream is already being read elsewhere')
    return ofWebStream(() => (from as { getReader(): WebReader }).getReader())
  }
  // A view that counts numbers is not a source of text.
  if (ArrayBuffer.isView(from)) return undefined
  const open =
    Symbol.asyncIterator in from
      ? () => (from as AsyncIterable<unknown>)[Symbol.asyncIterator]()
      : Symbol.iterator in from
        ? () => (from as Iterable<unknown>)[Symbol.iterator]()
        : undefined
  return open && ofIterable(open, isNodeStream(from) ? from : undefined)
}

interface NodeStream {
  on(event: 'error', listener: () => void): unknown
  destroy(): unknown
}

function isNodeStream(from: object): from is NodeStream {
  return (
    'on' in from && typeof from.on === 'function' && 'destroy' in from && typeof from.destroy === 'function'
  )
}

function ofWebStream(open: () => WebReader): Source {
  let reader: WebReader | undefined
  return {
    take() {},
    next: async () => (reader ??= open()).read(),
    close() {
      try {
        ;(reader ??= open()).cancel().catch(() => {})
      } catch {
        // Somebody else has taken it meanwhile, and so its end.
      }
    },
  }
}

/** @param stream its iterator would wait for the chunk under way before it ends anything: it is destroyed */
function ofIterable(
  open: () => AsyncIterator<unknown> | Iterator<unknown>,
  stream: NodeStream | undefined,
): Source {
  let iterator: AsyncIterator<unknown> | Iterator<unknown> | undefined
  return {
    // Without a listener its error would be the host's end.
    take: () => void stream?.on('error', () => {}),
    next: () => (iterator ??= open()).next(),
    close() {
      // Its failure to end is no failure of the run's.
      const end = async () => (stream ? stream.destroy() : iterator?.return?.())
      end().catch(() => {})
    },
  }
}

/** Asked for ahead of what the program has taken. */
const AHEAD_BYTES = 256 << 10

function isThenable(next: Next | Promise<Next>): next is Promise<Next> {
  return typeof (next as { then?: unknown } | null)?.then === 'function'
}

/** How long chunks may come one after the other without a turn of the event loop. */
const TURN_MS = 10

/**
 * Writes the source's chunks until its end, or until the program takes no more; then the source is closed. Rejects with what the
 * source fails with, and leaves stdin open: a part must not pass for the whole.
 * @param over settles when nothing will be taken any more
 */
export async function pump(source: Source, stdin: StdinQueue, over: Promise<unknown>): Promise<void> {
  let isWanted = true
  const close = () => {
    if (isWanted) source.close()
    isWanted = false
  }
  over.then(close, close)
  let turnedMs = elapsedMs()
  for (;;) {
    // A source that always has its next chunk ready would keep everything else in this process from running.
    if (elapsedMs() - turnedMs > TURN_MS) {
      await nextTurn()
      turnedMs = elapsedMs()
    }
    let next: Next | Promise<Next>
    try {
      next = source.next()
      // A chunk that is there already needs no `await`: a promise for each small chunk takes longer than the chunk.
      if (isThenable(next)) next = await next
      if (typeof next !== 'object' || next === null) throw new TypeError(`an iterator gave ${show(next)}`)
    } catch (error) {
      if (!isWanted) return
      isWanted = false
      throw error
    }
    if (!isWanted) return
    if (next.done) break
    const { value } = next
    if (typeof value !== 'string' && !types.isUint8Array(value)) {
      close()
      throw invalidOption('input', `expected chunks that are strings or Uint8Arrays, got ${show(value)}`)
    }
    if (!stdin.isOpen) return close()
    stdin.add(value)
    if (stdin.waitingBytes >= AHEAD_BYTES && !(await stdin.taken())) return close()
  }
  isWanted = false
  await stdin.end()
}
