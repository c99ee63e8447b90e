// One program under watch on this terminal or pipe: what `sheepdog run` does once its options are known.
import type { LineBatch, RunningProcess, RunOptions, SheepdogError } from '../lib/index'
import { spawn } from '../lib/index'
import type { RefusedTarget } from '../lib/sandbox'
import { elapsedMs } from '../lib/host'
import { basename } from 'node:path'
import { leaveBy, onInterrupt, onJobControl } from './interrupt'
import { LiveLine, liveState } from './live'
import { Output } from './output'
import { json as toJson } from './screen'
import { isRedirected } from './stdin'
import { LentTerminal, terminalSize } from './terminal'
import { describeEnd, describeExit, endRecord, exitStatus, type Ended } from './verdict'

type Limits = 'idleTimeoutMs' | 'timeoutMs' | 'cwd' | 'env' | 'memoryMaxBytes' | 'sandbox' | 'record' | 'name'

export interface WatchOptions extends Pick<RunOptions, Limits> {
  /** A terminal of its own. */
  pty?: boolean
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
  const { json = false, quiet = false, pty = false, ...limits } = options
  // A program that draws on its terminal leaves no place for a live line.
  const live =
    quiet || pty ? undefined : LiveLine.on(process.stderr, liveState(basename(command), elapsedMs()))
  const ended: Ended = { command, lines: 0 }
  const child: RunningProcess = spawn(command, args, { ...limits, ...(pty ? ownTerminal() : ownInput()) })
  const terminal = pty ? new LentTerminal(child) : undefined
  const output = new Output(live, () => {
    child.detachOutput()
    void child.kill().catch(() => {})
  })
  const interrupt = onInterrupt(
    (signal) => {
      ended.interrupt = signal
      if (live) {
        live.state.note = 'stopping (again: kill at once)'
        live.draw()
      }
      output.hurry()
      void child.kill().catch(() => {})
    },
    () => void child.kill('SIGKILL').catch(() => {}),
    (signal) => {
      live?.close()
      terminal?.giveBack()
      leaveBy(signal)
    },
  )
  // On a terminal of its own the program gets the keys, Ctrl-Z too.
  const leaveAlone = pty
    ? () => {}
    : onJobControl(
        () => signalGroup(child, 'SIGSTOP'),
        () => signalGroup(child, 'SIGCONT'),
      )
  if (live) live.state.idleLimitMs = limits.idleTimeoutMs
  live?.draw()
  const show = pty && !json ? passBytes(child, output, terminal) : showLines(child, output, live, ended, json)
  // An iteration ends by throwing what `result` rejects with: it is looked at below.
  await show.catch(() => {})
  try {
    ended.result = await child.result
  } catch (error) {
    ended.error = error as SheepdogError
    ended.result = ended.error.result as Ended['result']
  }
  terminal?.giveBack()
  leaveAlone()
  interrupt.end()
  Object.assign(ended, { broken: output.broken, brokenQuietly: output.brokenQuietly })
  live?.close()
  if (json) await output.write('stdout', `${toJson(endRecord(ended))}\n`)
  summarise(ended, output, live, quiet)
  output.close()
  return { ...ended, status: exitStatus(ended) }
}

async function passBytes(child: RunningProcess, output: Output, terminal?: LentTerminal): Promise<void> {
  for await (const bytes of child.bytes()) {
    terminal?.shows(bytes)
    await output.passThrough('stdout', bytes)
  }
}

async function showLines(
  child: RunningProcess,
  output: Output,
  live: LiveLine | undefined,
  ended: Ended,
  json: boolean,
): Promise<void> {
  for await (const batch of child.lineBatches()) {
    ended.lines += batch.lines.length
    if (live) note(live, batch)
    if (json) await output.write('stdout', jsonLines(batch))
    else await output.passThrough(batch.stream, `${batch.lines.join('\n')}\n`)
  }
}

/** Says on stderr what the output does not show. */
function summarise(ended: Ended, output: Output, live: LiveLine | undefined, quiet: boolean): void {
  const { problem } = ended.result?.record ?? {}
  if (problem) output.say(`sheepdog: the record is not whole: ${problem}`)
  const refused = ended.result?.sandbox?.refused ?? []
  if (refused.length > 0 && !quiet) output.say(`sheepdog: ${describeRefused(refused)}`)
  const words = describeEnd(ended) ?? (live && describeExit(ended))
  if (words && !quiet) output.say(`sheepdog: ${words}`)
}

/** The options by which a program gets the terminal or the input of this command. */
type Lent = Pick<RunOptions, 'stdin' | 'pty' | 'input'>

/** Stops or continues the program with its group. Its terminal can't: the program is in another session. */
function signalGroup({ pid }: RunningProcess, signal: 'SIGSTOP' | 'SIGCONT'): void {
  try {
    if (pid) process.kill(-pid, signal)
  } catch {
    // It has ended.
  }
}

/**
 * The very descriptor, not what we would read of it: a program that reads none, or only a part, leaves the rest to whoever has
 * it next (the loop `while read ...`).
 */
function ownInput(): Lent {
  return { stdin: isRedirected() ? 'inherit' : 'null' }
}

function ownTerminal(): Lent {
  const pty = terminalSize()
  if (process.stdin.isTTY) return { pty, stdin: 'pipe' }
  return isRedirected() ? { pty, input: process.stdin } : { pty }
}

function note(live: LiveLine, batch: LineBatch): void {
  live.state.lastMs = elapsedMs()
  live.state.last = batch.lines.findLast((line) => line.trim() !== '') ?? live.state.last
  live.state.lines += batch.lines.length
  for (const line of batch.lines) live.state.bytes += Buffer.byteLength(line) + 1
}

/** The first few of them. */
function describeRefused(refused: RefusedTarget[]): string {
  const names = refused.slice(0, 5).map(({ what, count }) => (count > 1 ? `${what} (${count} times)` : what))
  // One row may stand for many targets.
  const least = refused.some(({ what }) => /^further (hosts|sockets)$/.test(what)) ? 'at least ' : ''
  const more = refused.length > names.length ? `, and ${least}${refused.length - names.length} more` : ''
  return `the sandbox refused connections to ${names.join(', ')}${more}`
}

function jsonLines({ stream, lines }: LineBatch): string {
  return lines.map((text) => `${toJson({ type: 'line', stream, text })}\n`).join('')
}
