// The Model Context Protocol over stdin and stdout: one message a line.
import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { ToolProtocol } from '../../lib/harness/session/tool_protocol'

/** Longest message that is read. */
const maxLineBytes = 64 << 20

/** Serves one client. Resolves when the client has closed its end, in either direction. */
export async function serve(protocol: ToolProtocol, input: Readable, output: Writable): Promise<void> {
  const gone = new AbortController()
  // A client that is gone is the usual end of this server.
  output.on('error', () => gone.abort())
  /** Settles when the client has taken the answers so far. One wait for all: each would be a listener of the stream. */
  let room: Promise<unknown> | undefined
  const send = (reply: string) => {
    if (gone.signal.aborted || output.write(`${reply}\n`)) return
    room ??= once(output, 'drain', { signal: gone.signal })
      .catch(() => {})
      .finally(() => (room = undefined))
  }
  const take = async (line: string) => {
    const reply = await protocol.take(line, gone.signal).catch(() => ToolProtocol.unreadable)
    if (reply !== undefined) send(reply)
  }
  try {
    for await (const line of lines(input, gone.signal)) {
      if (line.trim() !== '') void take(line)
      // A client that takes no answers is asked for no more questions: their answers would fill the memory.
      await room
    }
  } finally {
    gone.abort()
  }
}

/** Takes a byte order mark away, which some shells write first. */
const utf8 = new TextDecoder()

async function* lines(input: Readable, signal: AbortSignal): AsyncGenerator<string> {
  let parts: Buffer[] = []
  let bytes = 0
  const stop = () => input.destroy()
  signal.addEventListener('abort', stop, { once: true })
  try {
    for await (const chunk of input as AsyncIterable<Buffer>) {
      let from = 0
      for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
        yield utf8.decode(Buffer.concat([...parts, chunk.subarray(from, end)]))
        parts = []
        bytes = 0
        from = end + 1
      }
      if (from < chunk.length) parts.push(chunk.subarray(from))
      bytes += chunk.length - from
      if (bytes > maxLineBytes) throw new Error(`a message is longer than ${maxLineBytes} bytes`)
    }
  } catch (error) {
    if (!signal.aborted) throw error
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
