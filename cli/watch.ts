// One program under watch on this terminal or pipe: what `sheepdog run` does once its options are known.
import type { LineBatch, SheepdogError } from '../lib/index'
import { spawn } from '../lib/index'
import type { SandboxOptions } from '../lib/sandbox'
import { basename } from 'node:path'
import { onInterrupt } from './interrupt'
import { LiveLine, liveState } from './live'
import { Output } from './output'
import { describeEnd, describeExit, endRecord, exitStatus, signalStatus, type Ended } from './verdict'

export interface WatchOptions {
  idleTimeoutMs?: number
  timeoutMs?: number
  sandbox?: SandboxOptions
  record?: string
  name?: string
  /** JSON lines instead of the program's own. */
  json?: boolean
}

export interface Watched extends Ended {
  /** Exit status for the command that watched. */
  status: number
}

/** How long a reader that does not read may hold up the end of an interrupted command. */
const partingMs = 500

export async function watch(command: string, args: string[], options: WatchOptions = {}): Promise<Watched> {
  const { json = false, ...limits } = options
  const live = LiveLine.on(process.stderr, liveState(basename(command), performance.now()))
  const ended: Ended = { command, lines: 0 }
  const child = spawn(command, args, limits)
  const output = new Output(live, () => {
    child.detachOutput()
    void child.kill().catch(() => {})
  })
  const leave = onInterrupt(
    (signal) => {
      ended.interrupt = signal
      if (live) {
        live.state.note = 'stopping (once more: kill at once)'
        live.draw()
      }
      output.hurry()
      void child.kill().catch(() => {})
    },
    () => killAtOnce(child.pid),
    (signal) => {
      live?.close()
      process.exit(signalStatus(signal))
    },
  )
  if (live) live.state.idleLimitMs = limits.idleTimeoutMs
  live?.draw()
  try {
    for await (const batch of child.lineBatches()) {
      ended.lines += batch.lines.length
      const text = json ? jsonLines(batch) : `${batch.lines.join('\n')}\n`
      if (live) note(live, batch)
      await output.write(json ? 'stdout' : batch.stream, text)
    }
  } catch {
    // An iteration ends by throwing what `result` rejects with: it is looked at below.
  }
  try {
    ended.result = await child.result
  } catch (error) {
    ended.error = error as SheepdogError
    ended.result = ended.error.result as Ended['result']
  }
  leave()
  Object.assign(ended, { broken: output.broken, brokenQuietly: output.brokenQuietly })
  live?.close()
  if (json) await output.write('stdout', `${JSON.stringify(endRecord(ended))}\n`)
  const { problem } = ended.result?.record ?? {}
  if (problem) output.say(`sheepdog: the record is not whole: ${problem}`)
  const words = describeEnd(ended) ?? (live && describeExit(ended))
  if (words) output.say(`sheepdog: ${words}`)
  output.close()
  const status = exitStatus(ended)
  if (ended.interrupt) part(status)
  return { ...ended, status }
}

function note(live: LiveLine, batch: LineBatch): void {
  live.state.lastMs = performance.now()
  live.state.last = batch.lines.findLast((line) => line.trim() !== '') ?? live.state.last
  live.state.lines += batch.lines.length
  for (const line of batch.lines) live.state.bytes += Buffer.byteLength(line) + 1
}

function jsonLines({ stream, lines }: LineBatch): string {
  return lines.map((text) => `${JSON.stringify({ type: 'line', stream, text })}\n`).join('')
}

/** SIGKILL to the program and its group; what it started elsewhere is killed as strays right after. */
function killAtOnce(pid: number | undefined): void {
  if (!pid) return
  for (const target of [-pid, pid]) {
    try {
      process.kill(target, 'SIGKILL')
    } catch {
      // It is gone already.
    }
  }
}

/** A reader that does not read must not keep an interrupted command from ending. */
function part(status: number): void {
  setTimeout(() => process.exit(status), partingMs).unref()
}
