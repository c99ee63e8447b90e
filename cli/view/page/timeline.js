// The time line: attempts, what the model says, tools; silence shaded, kills marked. Drawn on a canvas, however many bars there are.
import { clock, duration } from './format.js'

const names = {
  run: { model: 'output' },
  turn: { wait: 'waiting', attempt: 'attempts', model: 'model', tool: 'tools' },
  session: { wait: 'waiting', attempt: 'turns', model: 'model', tool: 'tools' },
}
const laneHeight = 24
const barHeight = 15
const top = 24
const left = 64
/** Tools that overlap share the lane's rows. */
const toolRows = 2

export class TimelineView {
  #canvas
  #tip
  #onRow
  #timeline
  #untilMs = 1
  #kind = 'turn'
  #lanes = []
  #bottom = 0
  #drawn = []

  /** `onRow(row)`: a bar was chosen. */
  constructor(canvas, tip, onRow) {
    this.#canvas = canvas
    this.#tip = tip
    this.#onRow = onRow
    new ResizeObserver(() => this.#draw()).observe(canvas)
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.#draw())
    canvas.addEventListener('pointermove', (event) => this.#point(event))
    canvas.addEventListener('pointerleave', () => (tip.hidden = true))
    canvas.addEventListener('click', (event) => {
      const found = this.#find(event)
      if (found?.bar) this.#onRow(found.bar.row)
    })
  }

  /** `untilMs`: now, for a run that goes on. */
  show(timeline, untilMs, kind) {
    this.#timeline = timeline
    this.#kind = kind
    // Most runs wait for nothing, and handlers of jobs speak to no model.
    const isUsed = (lane) => lane === 'attempt' || timeline.bars.some((bar) => bar.lane === lane)
    this.#lanes = Object.keys(names[kind]).filter((lane) => kind === 'run' || isUsed(lane))
    this.#bottom = top + laneHeight * (this.#lanes.length + (this.#lanes.includes('tool') ? toolRows - 1 : 0))
    this.#canvas.style.height = `${this.#bottom + 8}px`
    this.#untilMs = Math.max(untilMs ?? 0, timeline.heardMs, 1)
    this.#canvas.setAttribute('aria-label', this.#words())
    this.#draw()
  }

  /** The picture in words. */
  #words() {
    const { bars, silences, marks } = this.#timeline
    const number = (lane) => bars.filter((bar) => bar.lane === lane).length
    const many = (count, word) => (count === 0 ? [] : [`${count} ${word}${count === 1 ? '' : 's'}`])
    const parts = [
      `Time line of ${duration(this.#untilMs)}`,
      ...many(number('attempt'), this.#kind === 'session' ? 'turn' : 'attempt'),
      ...many(number('wait'), 'wait'),
      ...many(number('tool'), 'tool call'),
      ...many(silences.length, 'silence'),
      ...marks.map(({ label }) => label),
    ]
    return parts.join(', ')
  }

  #draw() {
    if (!this.#timeline) return
    const { clientWidth, clientHeight } = this.#canvas
    const ratio = devicePixelRatio
    this.#canvas.width = clientWidth * ratio
    this.#canvas.height = clientHeight * ratio
    const context = this.#canvas.getContext('2d')
    context.scale(ratio, ratio)
    const style = getComputedStyle(this.#canvas)
    const colours = {}
    const colour = (name) => (colours[name] ??= this.#colour(style, name))
    const width = clientWidth - left - 8
    const x = (ms) => left + (ms / this.#untilMs) * width
    const bottom = this.#bottom
    context.font = `11px ${style.getPropertyValue('--sans')}`
    context.textBaseline = 'middle'
    this.#drawn = []
    const place = { context, colour, x, bottom, width }
    this.#silences(place)
    this.#axis(context, colour, x, bottom)
    context.fillStyle = colour('faint')
    this.#lanes.forEach((lane, at) =>
      context.fillText(names[this.#kind][lane], 0, top + at * laneHeight + laneHeight / 2),
    )
    this.#bars(place)
    this.#marks(place)
  }

  /** A colour of the theme, as the page draws it: a canvas takes no `light-dark()`. */
  #colour(style, name) {
    this.#canvas.style.color = `var(--${name})`
    return style.color
  }

  #silences({ context, colour, x, bottom }) {
    const { bars, silences, heardMs } = this.#timeline
    // Nobody expects to hear of a run that waits.
    const isWaiting = bars.some(({ lane, toMs }) => lane === 'wait' && toMs === null)
    const still = !isWaiting && this.#untilMs - heardMs >= 3000 ? [[heardMs, this.#untilMs]] : []
    context.fillStyle = colour('silence')
    for (const [from, to] of [...silences, ...still]) {
      const [begin, end] = [x(from), x(to)]
      context.fillRect(begin, top - 4, Math.max(1, end - begin), bottom - top + 4)
      this.#drawn.push({ begin, end, y: top, height: 0, words: `silent for ${duration(to - from)}` })
    }
  }

  #bars({ context, colour, x }) {
    const busyUntil = Array.from({ length: toolRows }, () => -1)
    for (const bar of this.#timeline.bars) {
      const to = bar.toMs ?? this.#untilMs
      let row = 0
      if (bar.lane === 'tool') {
        row = Math.max(
          0,
          busyUntil.findIndex((until) => until <= bar.fromMs),
        )
        busyUntil[row] = Math.max(busyUntil[row], to)
      }
      const y = top + (this.#lanes.indexOf(bar.lane) + row) * laneHeight + (laneHeight - barHeight) / 2
      const begin = x(bar.fromMs)
      const length = Math.max(2, x(to) - begin)
      context.fillStyle = bar.isError ? colour('failed') : colour(`bar-${bar.lane}`)
      context.beginPath()
      context.roundRect(begin, y, length, barHeight, Math.min(4, length / 2))
      context.fill()
      const words = `${bar.label}, ${duration(to - bar.fromMs)}${bar.toMs === null ? ', open' : ''}`
      this.#drawn.push({ begin, end: begin + length, y, height: barHeight, words, bar })
      if (bar.lane !== 'model' && context.measureText(bar.label).width < length - 10) {
        context.fillStyle =
          (bar.lane === 'attempt' || bar.lane === 'wait') && !bar.isError ? colour('ink') : colour('on-bar')
        context.fillText(bar.label, begin + 5, y + barHeight / 2 + 0.5)
      }
    }
  }

  #marks({ context, colour, x, bottom, width }) {
    for (const { atMs, label, tone } of this.#timeline.marks) {
      const at = Math.min(x(atMs), left + width - 1)
      context.strokeStyle = context.fillStyle = colour(tone === 'kill' ? 'failed' : 'killed')
      context.lineWidth = 1.5
      context.beginPath()
      context.moveTo(at, top - 6)
      context.lineTo(at, bottom)
      context.stroke()
      this.#sign(context, at, top - 8, tone)
      this.#drawn.push({ begin: at - 5, end: at + 5, y: top - 14, height: 14, words: label })
    }
  }

  /** A cross for a kill, a dot for another try. */
  #sign(context, x, y, tone) {
    context.beginPath()
    if (tone === 'kill') {
      context.lineWidth = 2
      context.moveTo(x - 4, y - 4)
      context.lineTo(x + 4, y + 4)
      context.moveTo(x + 4, y - 4)
      context.lineTo(x - 4, y + 4)
      context.stroke()
    } else {
      context.arc(x, y, 4, 0, 7)
      context.fill()
    }
  }

  #axis(context, colour, x, bottom) {
    const steps = [
      1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5,
      72e5, 144e5, 864e5,
    ]
    const wanted = this.#untilMs / Math.max(2, this.#canvas.clientWidth / 110)
    const step = steps.find((one) => one >= wanted) ?? wanted
    context.lineWidth = 1
    for (let ms = 0; ms <= this.#untilMs; ms += step) {
      context.strokeStyle = colour('line')
      context.beginPath()
      context.moveTo(Math.round(x(ms)) + 0.5, top - 4)
      context.lineTo(Math.round(x(ms)) + 0.5, bottom)
      context.stroke()
      context.fillStyle = colour('faint')
      const words = step < 1000 ? `${ms} ms` : clock(ms)
      if (x(ms) + context.measureText(words).width < this.#canvas.clientWidth)
        context.fillText(words, x(ms) + 3, 8)
    }
  }

  #find({ offsetX, offsetY }) {
    const isAt = ({ begin, end, y, height }) =>
      offsetX >= begin - 1 && offsetX <= end + 1 && (height === 0 || (offsetY >= y && offsetY <= y + height))
    return this.#drawn.findLast(isAt)
  }

  #point(event) {
    const found = this.#find(event)
    this.#tip.hidden = !found
    this.#canvas.style.cursor = found?.bar ? 'pointer' : 'default'
    if (!found) return
    this.#tip.textContent = found.words
    const right = this.#canvas.clientWidth - this.#tip.offsetWidth
    this.#tip.style.left = `${Math.max(0, Math.min(event.offsetX + 30, right))}px`
    this.#tip.style.top = `${event.offsetY + 18}px`
  }
}
