// One program under watch on this terminal or pipe: what `sheepdog run` does once its options are known.
import type { LineBatch, SheepdogError } from '../lib/index'
import { spawn } from '../lib/index'
import type { SandboxOptions } from '../lib/sandbox'
import { basename } from 'node:path'
import { leaveBy, onInterrupt } from './interrupt'
import { LiveLine, liveState } from './live'
import { Output } from './output'
import { describeEnd, describeExit, endRecord, exitStatus, type Ended } from './verdict'

export interface WatchOptions {
  idleTimeoutMs?: number
  timeoutMs?: number
  cwd?: string
  env?: Record<string, string>
  memoryMaxBytes?: number
  sandbox?: SandboxOptions
  /** Nothing but the program's own output. */
  quiet?: boolean
  /** JSON lines instead of the program's own. */
  json?: boolean
}

export interface Watched extends Ended {
  /** Exit status for the command that watched. */
  status: number
}

export async function watch(command: string, args: string[], options: WatchOptions = {}): Promise<Watched> {
  const { json = false, quiet = false, ...limits } = options
  const live = quiet
    ? undefined
    : LiveLine.on(process.stderr, liveState(basename(command), performance.now()))
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
      leaveBy(signal)
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
  const words = describeEnd(ended) ?? (live && describeExit(ended))
  if (words && !quiet) output.say(`sheepdog: ${words}`)
  output.close()
  return { ...ended, status: exitStatus(ended) }
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
