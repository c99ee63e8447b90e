// The live line: one line at the foot of a terminal that says what a run is doing. `renderLive` is PURE; `LiveLine` is the thin
// part that draws it, takes it away before other output, and ticks.
import { elapsedMs, timers, variable } from '../lib/host'
import { wantsColour } from './colour'
import { showBytes, showClock, showCount } from './figure'
import { isPipe } from './stdin'
import { displayWidth, fitWidth, plainText } from './width'

/** Facts of a run. Times are those of `elapsedMs()`. */
export interface LiveState {
  /** Name of the program or agent that runs. */
  label: string
  startedMs: number
  /** When something last came. */
  lastMs: number
  /** The last line or event; any text, it is made fit for one line. */
  last: string
  lines: number
  bytes: number
  /** Silence that ends the run, where it is known. */
  idleLimitMs?: number
  /** The tool in progress. */
  tool?: string
  tokens?: number
  /** Takes the place of the silence: "stopping, ...". */
  note?: string
}

export function liveState(label: string, nowMs: number): LiveState {
  return { label, startedMs: nowMs, lastMs: nowMs, last: '', lines: 0, bytes: 0 }
}

const separator = ' · '
/** Less than this says nothing. */
const shortestLast = 8
const labelColumns = 24
const silenceShownMs = 2000

/** The line, in at most so many columns. What matters less is left out first. */
export function renderLive(state: LiveState, nowMs: number, columns: number, colour = false): string {
  const paint = (code: number, text: string) => (colour ? `\u001b[${code}m${text}\u001b[0m` : text)
  const parts = [{ text: showClock(nowMs - state.startedMs), code: 1 }]
  const label = fitWidth(plainText(state.label), labelColumns)
  if (label) parts.push({ text: label, code: 36 })
  if (state.note) parts.push({ text: state.note, code: 33 })
  else parts.push(...silence(state, nowMs))
  if (state.tool) parts.push({ text: `tool ${plainText(state.tool)}`, code: 35 })
  if (state.tokens !== undefined) parts.push({ text: showCount(state.tokens, 'token'), code: 2 })
  if (state.lines > 0)
    parts.push({ text: `${showCount(state.lines, 'line')}, ${showBytes(state.bytes)}`, code: 2 })

  let line = ''
  let left = columns
  for (const [index, { text, code }] of parts.entries()) {
    const gap = index === 0 ? 0 : separator.length
    const fitting = left - gap < displayWidth(text) ? (index < 2 ? fitWidth(text, left - gap) : '') : text
    if (!fitting) break
    line += (gap ? separator : '') + paint(code, fitting)
    left -= gap + displayWidth(fitting)
  }
  const last =
    left - separator.length >= shortestLast ? fitWidth(plainText(state.last), left - separator.length) : ''
  return last ? line + separator + paint(2, last) : line
}

function silence({ lastMs, idleLimitMs }: LiveState, nowMs: number): { text: string; code: number }[] {
  const ms = nowMs - lastMs
  if (ms < silenceShownMs) return []
  const limited = idleLimitMs !== undefined && Number.isFinite(idleLimitMs) && idleLimitMs > 0
  const text = `silent ${showClock(ms)}${limited ? ` of ${showClock(idleLimitMs)}` : ''}`
  return [{ text, code: limited && ms > idleLimitMs / 2 ? 33 : 2 }]
}

/** Control sequences that erase a drawn line: it may have been wrapped since, by a terminal that was made narrower. */
export function eraseLive(drawnColumns: number, columns: number): string {
  if (drawnColumns === 0) return ''
  const rows = Math.max(1, Math.ceil(drawnColumns / Math.max(1, columns)))
  // On its first row, tmux takes the erasing of all that is below for that of the screen, and keeps the line in its history.
  return rows > 1 ? `\u001b[${rows - 1}A\r\u001b[J` : '\r\u001b[K'
}

type Terminal = Pick<NodeJS.WriteStream, 'write' | 'columns' | 'on' | 'off' | 'isTTY'>

const tickMs = 500
const usualColumns = 80
/** Stay empty: a terminal may wrap when its last column is filled, and it echoes "^C" behind the line. */
const freeColumns = 3

export class LiveLine {
  readonly state: LiveState
  readonly #terminal: Terminal
  readonly #colour: boolean
  readonly #onResize = () => this.draw()
  #drawnColumns = 0
  #closed = false
  #timer: NodeJS.Timeout | undefined

  /**
   * A live line where there is a terminal that can show one, else undefined. It begins with the first `draw`. There is none when
   * stdout is a pipe: what reads it (`| less`) may write to the same terminal.
   */
  static on(terminal: Terminal, state: LiveState): LiveLine | undefined {
    const able = terminal.isTTY && variable('TERM') !== 'dumb' && !isPipe(1)
    return able ? new LiveLine(terminal, state) : undefined
  }

  private constructor(terminal: Terminal, state: LiveState) {
    this.#terminal = terminal
    this.state = state
    this.#colour = wantsColour(terminal)
  }

  draw(): void {
    if (this.#closed) return
    if (!this.#timer) {
      this.#timer = timers.setInterval(() => this.draw(), tickMs).unref()
      this.#terminal.on('resize', this.#onResize)
    }
    const columns = (this.#terminal.columns || usualColumns) - freeColumns
    const nowMs = elapsedMs()
    this.#terminal.write(this.#erase() + renderLive(this.state, nowMs, columns, this.#colour))
    this.#drawnColumns = displayWidth(renderLive(this.state, nowMs, columns))
  }

  /** Takes the line away, so that other output can be written; `draw` brings it back. */
  clear(): void {
    const erase = this.#erase()
    if (erase) this.#terminal.write(erase)
    this.#drawnColumns = 0
  }

  /** For good. */
  close(): void {
    this.clear()
    this.#closed = true
    timers.clearInterval(this.#timer)
    this.#terminal.off('resize', this.#onResize)
  }

  #erase(): string {
    return eraseLive(this.#drawnColumns, this.#terminal.columns || usualColumns)
  }
}
