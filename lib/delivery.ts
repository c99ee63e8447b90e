// The JavaScript half of src/binding/delivery: text arrives in one callback for all runs and is dealt out to its readers.
import { timers } from './host'
import { native } from './native'

/** Lines of a stream, joined by "\n". */
export interface Block {
  stream: 'stdout' | 'stderr'
  text: string
  /** In the text's place, where nothing is to be decoded. */
  bytes?: Uint8Array
  /** It has characters beyond Latin-1: two bytes each. */
  wide: boolean
  /** To be released when the reader has taken it. */
  weight: number
}

/** The reason why a reader did not get the whole output. */
export type Missed =
  | { stream: 'stdout' | 'stderr'; reason: 'line-too-long' }
  | { stream: 'stdout' | 'stderr'; reason: 'dropped'; bytes: number }

/** Callbacks by which a reader gets the content of its channel. */
export interface Reader {
  onBlock(block: Block): void
  onEnd(missed?: Missed): void
}

const readers = new Map<number, Reader>()
const taken = new Map<number, number>()
let acknowledging = false
let flushes = 0
let keepAlive: NodeJS.Timeout | undefined

export const delivery = new native.Delivery(onFlush)

/** Deals a channel's text to this reader until its end. An open channel keeps the host alive. */
export function attach(channel: number, reader: Reader): void {
  readers.set(channel, reader)
  keepAlive ??= timers.setInterval(() => {}, 2 ** 30)
}

/** The reader wants no more. */
export function detach(channel: number): void {
  if (readers.delete(channel) && readers.size === 0) {
    timers.clearInterval(keepAlive)
    keepAlive = undefined
  }
}

/** The reader has taken so much of its channel: the program may print on. */
export function release(channel: number, weight: number): void {
  taken.set(channel, (taken.get(channel) ?? 0) + weight)
  acknowledgeSoon()
}

function onFlush(blocks: unknown[]): void {
  flushes++
  acknowledgeSoon()
  for (let at = 0; at < blocks.length; at += 4) {
    const channel = blocks[at] as number
    const kind = blocks[at + 1] as number
    const weight = blocks[at + 3] as number
    const reader = readers.get(channel)
    if (kind < 0) {
      detach(channel)
      reader?.onEnd(missedOf(kind, blocks[at + 2]))
    } else if (reader) {
      const stream = (kind & 1) === 0 ? 'stdout' : 'stderr'
      if (kind < 4) reader.onBlock({ stream, text: blocks[at + 2] as string, wide: kind > 1, weight })
      else reader.onBlock({ stream, text: '', bytes: blocks[at + 2] as Uint8Array, wide: false, weight })
    } else {
      release(channel, weight)
    }
  }
}

function missedOf(kind: number, dropped: unknown): Missed | undefined {
  if (kind === -1) return undefined
  const stream = kind % 2 === 0 ? 'stdout' : 'stderr'
  return kind > -4
    ? { stream, reason: 'line-too-long' }
    : { stream, reason: 'dropped', bytes: dropped as number }
}

/** After the loop has turned: a flood must not starve what else the host does. */
function acknowledgeSoon(): void {
  if (acknowledging) return
  acknowledging = true
  timers.setImmediate(() => {
    acknowledging = false
    const pairs = new Uint32Array(2 * taken.size)
    let at = 0
    for (const [channel, weight] of taken) {
      pairs[at++] = channel
      pairs[at++] = weight
    }
    taken.clear()
    delivery.acknowledge(flushes, pairs)
    flushes = 0
  })
}
