// A list of any length: only what is in sight is in the page. Rows are equally high; one that is unfolded is higher by a known amount.
import { element } from './format.js'

/** Rows above and below what is in sight. */
const around = 8
/** Browsers draw no higher elements; a longer list scrolls faster than it is. */
const mostPixels = 16_000_000

export class VirtualList {
  #container
  #space = element('div', 'space')
  #height
  #draw
  #length = 0
  #items = new Map()
  #unfolded = new Map()
  #queued = false
  /** The row that the keyboard is at. */
  #active = -1

  /** `draw(index)` makes the element of a row, or undefined while its data is on the way. */
  constructor(container, height, draw) {
    this.#container = container
    this.#height = height
    this.#draw = draw
    container.append(this.#space)
    container.addEventListener('scroll', () => this.#queue(), { passive: true })
    new ResizeObserver(() => this.#queue()).observe(container)
  }

  get length() {
    return this.#length
  }

  /** Whether the end is in sight. */
  get isAtEnd() {
    const { scrollTop, clientHeight } = this.#container
    return scrollTop + clientHeight >= this.#pixels() - this.#height
  }

  get active() {
    return this.#active
  }

  /** Rows of this many pixels from now on. */
  set height(pixels) {
    this.#height = pixels
    this.redraw()
  }

  /** Moves the keyboard's place to a row and brings it into sight. */
  activate(index) {
    if (this.#length === 0) return
    const before = this.#active
    this.#active = Math.max(0, Math.min(this.#length - 1, index))
    this.#mark(before)
    const { scrollTop, clientHeight } = this.#container
    const place = this.#top(this.#active) - scrollTop / this.#scale()
    const end = place + this.#height + Math.min(this.unfoldedBy(this.#active), clientHeight - this.#height)
    if (place < 0) this.#container.scrollTop = this.#top(this.#active) * this.#scale()
    else if (end > clientHeight) this.#container.scrollTop += (end - clientHeight) * this.#scale()
    this.#show()
    this.#mark(this.#active)
  }

  /** The row for this key: arrows, page up and down, home, end; undefined for other keys. */
  target(key) {
    const page = Math.max(1, Math.floor(this.#container.clientHeight / this.#height) - 1)
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page }
    if (key === 'Home') return 0
    if (key === 'End') return this.#length - 1
    return key in steps ? Math.max(0, this.#active) + steps[key] : undefined
  }

  #mark(index) {
    const item = this.#items.get(index)
    item?.classList.toggle('active', index === this.#active)
    if (item && index === this.#active) this.#container.setAttribute('aria-activedescendant', item.id)
  }

  clear() {
    this.#unfolded.clear()
    this.#active = -1
    this.#container.removeAttribute('aria-activedescendant')
    this.#container.scrollTop = 0
    this.resize(0)
    this.redraw()
  }

  resize(length) {
    this.#length = length
    this.#space.style.height = `${this.#pixels()}px`
    this.#queue()
  }

  /** Everything in sight anew, or these rows. */
  redraw(from = 0, to = Infinity) {
    for (const [index, item] of this.#items) {
      if (index < from || index > to) continue
      item.remove()
      this.#items.delete(index)
    }
    this.#queue()
  }

  toEnd() {
    this.#container.scrollTop = this.#pixels()
    this.#queue()
  }

  scrollTo(index) {
    this.#container.scrollTop = (this.#top(index) - this.#container.clientHeight / 3) * this.#scale()
    this.#queue()
  }

  /** So many pixels more for a row; 0: folded. */
  unfold(index, pixels) {
    if (pixels > 0) this.#unfolded.set(index, pixels)
    else this.#unfolded.delete(index)
    this.redraw(index, index)
    this.resize(this.#length)
  }

  unfoldedBy(index) {
    return this.#unfolded.get(index) ?? 0
  }

  #whole() {
    let sum = this.#length * this.#height
    for (const more of this.#unfolded.values()) sum += more
    return sum
  }

  #pixels() {
    return Math.min(this.#whole(), mostPixels)
  }

  /** Pixels that are scrolled for one of the list. */
  #scale() {
    const { clientHeight } = this.#container
    const [whole, pixels] = [this.#whole(), this.#pixels()]
    return whole === pixels ? 1 : (pixels - clientHeight) / (whole - clientHeight)
  }

  #top(index) {
    let top = index * this.#height
    for (const [unfolded, more] of this.#unfolded) if (unfolded < index) top += more
    return top
  }

  #queue() {
    if (this.#queued) return
    this.#queued = true
    requestAnimationFrame(() => {
      this.#queued = false
      this.#show()
    })
  }

  #show() {
    const { scrollTop, clientHeight } = this.#container
    const from = scrollTop / this.#scale()
    // Pieces that are unfolded above make the first row in sight an earlier one.
    let above = 0
    for (const [index, more] of this.#unfolded) if (this.#top(index) + this.#height < from) above += more
    const first = Math.max(0, Math.floor((from - above) / this.#height) - around)
    const last = Math.min(this.#length - 1, Math.ceil((from - above + clientHeight) / this.#height) + around)
    for (const [index, item] of this.#items) {
      if (index >= first && index <= last) continue
      item.remove()
      this.#items.delete(index)
    }
    for (let index = first; index <= last; index++) {
      let item = this.#items.get(index)
      if (!item) {
        item = this.#draw(index)
        if (!item) continue
        item.classList.add('item')
        item.id = `${this.#container.id}-${index}`
        item.setAttribute('aria-posinset', `${index + 1}`)
        item.setAttribute('aria-setsize', `${this.#length}`)
        item.style.height = `${this.#height + this.unfoldedBy(index)}px`
        this.#items.set(index, item)
        this.#container.append(item)
        if (index === this.#active) this.#mark(index)
      }
      item.style.transform = `translateY(${Math.round(this.#top(index) - from + scrollTop)}px)`
    }
  }
}
