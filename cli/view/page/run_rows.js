// The rows of one run: events, or the lines of a program's output. Loaded in pages as they come into sight.
import { announce, duration, element, moment } from './format.js'
import { VirtualList } from './rows.js'

const eventHeight = 26
const lineHeight = 20
const pageRows = 200
/** An unfolded row shows so much, and scrolls inside. */
const mostUnfolded = 380
/** Longest text of a row that is kept in the page. */
const mostText = 200_000
/** Shorter pauses are not shown. */
const silenceMs = 3000

export class RunRows {
  #container
  #get
  #onLeave
  #list
  /** Pages of rows by number: rows, or a promise of them. */
  #pages = new Map()
  #texts = new Map()
  #flash
  #words = ''
  #isOutput = false
  #isExact = false
  /** Changes with the run: answers for an earlier one are dropped. */
  #turn = 0
  #lastTop = 0

  /** `get(part)` fetches a part of the run; `onLeave()`: the reader moved away from the end. */
  constructor(container, get, onLeave) {
    this.#container = container
    this.#get = get
    this.#onLeave = onLeave
    this.#list = new VirtualList(container, eventHeight, (index) => this.#draw(index))
    container.addEventListener('keydown', (event) => this.#onKey(event))
    container.addEventListener('scroll', () => this.#onScroll(), { passive: true })
    container.addEventListener(
      'focus',
      () => this.#list.active < 0 && this.#list.activate(this.#firstInSight()),
    )
  }

  get active() {
    return this.#list.active
  }

  /** Whether times have milliseconds. */
  set isExact(isExact) {
    if (isExact === this.#isExact) return
    this.#isExact = isExact
    this.#list.redraw()
  }

  clear(isOutput) {
    this.#turn++
    this.#isOutput = isOutput
    this.#pages.clear()
    this.#texts.clear()
    this.#flash = undefined
    this.#words = ''
    this.#container.classList.toggle('output', isOutput)
    this.#container.setAttribute('aria-label', isOutput ? 'Output' : 'Events')
    this.#list.height = isOutput ? lineHeight : eventHeight
    this.#list.clear()
  }

  /** So many rows now. The last known one may have grown, and its page has room for more. */
  resize(length) {
    const first = Math.max(0, this.#list.length - 1)
    for (const page of this.#pages.keys()) if ((page + 1) * pageRows > first) this.#pages.delete(page)
    this.#list.resize(length)
    this.#list.redraw(first)
  }

  toEnd() {
    this.#list.toEnd()
    this.#lastTop = Infinity
  }

  /** Marks these words where they stand. */
  mark(words) {
    this.#words = words.toLowerCase()
    this.#list.redraw()
  }

  goTo(row) {
    const before = this.#flash
    this.#flash = row
    if (before !== undefined) this.#list.redraw(before, before)
    this.#list.redraw(row, row)
    this.#list.scrollTo(row)
    this.#list.activate(row)
  }

  #firstInSight() {
    const height = this.#isOutput ? lineHeight : eventHeight
    return Math.ceil(this.#container.scrollTop / height)
  }

  #onScroll() {
    const { scrollTop } = this.#container
    if (scrollTop < this.#lastTop - 1 && this.#lastTop !== Infinity && !this.#list.isAtEnd) this.#onLeave()
    this.#lastTop = scrollTop
  }

  #onKey(event) {
    const { key, target } = event
    // Keys in the text of an unfolded row scroll that text.
    if (target !== this.#container || event.ctrlKey || event.metaKey || event.altKey) return
    const row = this.#list.active
    const next = this.#list.target(key)
    if (next !== undefined) {
      event.preventDefault()
      if (next < row) this.#onLeave()
      this.#list.activate(next)
    } else if (key === 'Enter' || key === ' ') {
      event.preventDefault()
      void this.#toggle(row)
    } else if (
      (key === 'ArrowRight' && !this.#texts.has(row)) ||
      (key === 'ArrowLeft' && this.#texts.has(row))
    ) {
      event.preventDefault()
      void this.#toggle(row)
    }
  }

  #row(index) {
    const page = Math.floor(index / pageRows)
    const rows = this.#pages.get(page)
    if (Array.isArray(rows)) return rows[index - page * pageRows]
    if (!rows) this.#pages.set(page, this.#load(page))
    return undefined
  }

  /** The row, also when it was still on its way. */
  async #arrived(index) {
    const row = this.#row(index)
    if (row) return row
    await this.#pages.get(Math.floor(index / pageRows))
    return this.#row(index)
  }

  async #load(page) {
    const turn = this.#turn
    const rows = await this.#get(`rows?from=${page * pageRows}&count=${pageRows}`).catch(() => undefined)
    if (turn !== this.#turn) return
    // Asked for again when it is next in sight.
    if (!rows) return this.#pages.delete(page)
    this.#pages.set(page, rows)
    this.#list.redraw(page * pageRows, (page + 1) * pageRows)
  }

  #draw(index) {
    const row = this.#row(index)
    if (!row) return undefined
    const opened = this.#texts.get(index)
    const line = this.#isOutput ? this.#outputLine(row) : this.#eventLine(row, opened !== undefined)
    const drawn = element('div', `row ${row.tone}`, line)
    drawn.setAttribute('role', 'treeitem')
    drawn.setAttribute('aria-level', '1')
    line.addEventListener('click', () => {
      // A click that ends a selection of text is none.
      if (getSelection()?.toString()) return
      if (row.more > 0) void this.#toggle(index)
      this.#list.activate(index)
    })
    if (row.more > 0) {
      drawn.classList.add('folds')
      drawn.setAttribute('aria-expanded', `${opened !== undefined}`)
    }
    if (index === this.#flash) drawn.classList.add('flash')
    if (opened !== undefined) {
      const text = element('pre', '', opened)
      text.tabIndex = 0
      text.setAttribute('aria-label', `All of row ${index + 1}`)
      drawn.append(text)
    }
    return drawn
  }

  #eventLine(row, isOpen) {
    const more = !isOpen && row.more > 1 ? `${row.more > 999 ? 'many' : row.more} lines` : ''
    return element(
      'div',
      'line',
      element('span', 'at', moment(row.ms, this.#isExact)),
      element('span', 'label', row.label),
      element('span', 'text', ...this.#gap(row), ...this.#marked(row.text)),
      element('span', 'more', more),
    )
  }

  #outputLine(row) {
    const spans = (row.spans ?? []).map((span) => {
      const piece = element('span', span.style ?? '', ...this.#marked(span.text))
      paint(piece, span)
      return piece
    })
    const line = element(
      'div',
      'line',
      element('span', 'number', `${row.index + 1}`),
      element('span', 'at', moment(row.ms, this.#isExact)),
      element('span', 'label', row.label === 'stderr' ? 'err' : ''),
      element('span', 'text', ...this.#gap(row), ...spans),
    )
    if (row.more > 0) line.append(element('span', 'more', 'long line'))
    if (row.silenceMs >= silenceMs) line.classList.add('after-silence')
    return line
  }

  #gap({ silenceMs: ms }) {
    return ms >= silenceMs ? [element('span', 'gap', `silent for ${duration(ms)}`)] : []
  }

  /** The text, with the words that are searched for marked. */
  #marked(text) {
    if (this.#words === '') return [text]
    const parts = []
    const lower = text.toLowerCase()
    // Lower case can be longer; then places don't fit.
    if (lower.length !== text.length) return [text]
    let from = 0
    for (let at = lower.indexOf(this.#words); at >= 0; at = lower.indexOf(this.#words, from)) {
      parts.push(text.slice(from, at), element('mark', '', text.slice(at, at + this.#words.length)))
      from = at + this.#words.length
    }
    return [...parts, text.slice(from)]
  }

  async #toggle(index) {
    if (this.#texts.delete(index)) {
      this.#list.unfold(index, 0)
      return announce('folded')
    }
    const turn = this.#turn
    const row = index < 0 ? undefined : await this.#arrived(index)
    if (turn !== this.#turn || !(row?.more > 0)) return
    this.#onLeave()
    const { text, isCut } = await this.#get(`row?index=${index}`)
    if (turn !== this.#turn) return
    const shown =
      text.length > mostText || isCut
        ? `${text.slice(0, mostText)}\n[... more in the record's folder ...]`
        : text
    this.#texts.set(index, shown)
    const lines = shown.split('\n').reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / 130)), 0)
    this.#list.unfold(index, Math.min(lines * 18 + 26, mostUnfolded))
    announce(`unfolded: ${shown.slice(0, 500)}`)
  }
}

/** The sixteen colours are those of the theme. Text in others stays readable on whatever it stands. */
function paint(piece, { style = '', color, background }) {
  const ground = named(style, 'bg')
  if (background) {
    piece.style.background = `rgb(${background})`
    piece.style.color = luminance(background) > 0.18 ? '#000' : '#fff'
  } else if (ground) piece.style.background = ground
  if (background) return
  if (color) piece.style.color = readable(color)
  else if (!ground && !/\b(dim|reverse)\b/.test(style)) piece.style.color = named(style, 'fg')
}

/** The colour of the theme for "fg-red" or "bg-bright-red"; "" without one. */
function named(style, kind) {
  const [, bright, name] = new RegExp(`\\b${kind}-(bright-)?(\\w+)`).exec(style) ?? []
  const isGrey = name === 'black' ? bright || kind === 'bg' : name === 'white' && kind === 'bg'
  return name ? `var(--${isGrey ? 'faint' : `ansi-${name}`})` : ''
}

function luminance(rgb) {
  const [red, green, blue] = rgb.split(',').map((part) => {
    const value = Number(part) / 255
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
  })
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue
}

const dark = matchMedia('(prefers-color-scheme: dark)')

/** The colour, nearer to the ink where it would be too faint. */
function readable(rgb) {
  const goal = dark.matches ? 255 : 0
  // The relative luminances that have a contrast of 4.5:1 with the sheet.
  const isEnough = (one) => (dark.matches ? luminance(one) >= 0.23 : luminance(one) <= 0.18)
  let parts = rgb.split(',').map(Number)
  for (let step = 0; step < 20 && !isEnough(parts.join(',')); step++)
    parts = parts.map((part) => part + (goal - part) * 0.12)
  return `rgb(${parts.map(Math.round).join(',')})`
}
