// A list of any length: only what is in sight is in the page. Rows are equally high; one that is unfolded is higher by a known amount.
import { element } from './format.js'

/** Rows above and below what is in sight. */
const around = 8
/** Browsers draw no higher elements; a longer list scrolls faster than it is. */
const mostPixels = 8_000_000

export class VirtualList {
  #container
  #space = element('div', 'space')
  #height
  #draw
  #length = 0
  #items = new Map()
  #unfolded = new Map()
  #queued = false

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

  clear() {
    this.#unfolded.clear()
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
        item.style.height = `${this.#height + this.unfoldedBy(index)}px`
        this.#items.set(index, item)
        this.#container.append(item)
      }
      item.style.transform = `translateY(${Math.round(this.#top(index) - from + scrollTop)}px)`
    }
  }
}
