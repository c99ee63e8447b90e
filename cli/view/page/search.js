// Search within a run: the server looks through its rows, piece by piece; the page moves between what was found.
import { announce, byId, count } from './format.js'

/** More places are not kept. */
const mostFound = 100_000

export class Search {
  #get
  #onWords
  #goTo
  #found = []
  #at = -1
  #isWhole = true
  /** Changes with what is searched for: answers for earlier words are dropped. */
  #turn = 0

  /** `get(part)` fetches a part of the run; `onWords(words)` and `goTo(row)` show what was found. */
  constructor(get, onWords, goTo) {
    this.#get = get
    this.#onWords = onWords
    this.#goTo = goTo
    let pause
    byId('words').addEventListener('input', () => {
      clearTimeout(pause)
      pause = setTimeout(() => void this.#search(), 200)
    })
    byId('search').addEventListener('submit', (event) => {
      event.preventDefault()
      this.#step(1)
    })
    byId('previous').addEventListener('click', () => this.#step(-1))
    byId('words').addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && event.shiftKey) {
        event.preventDefault()
        this.#step(-1)
      }
      if (event.key === 'Escape') byId('rows').focus()
    })
    addEventListener('keydown', (event) => {
      if (
        event.key !== '/' ||
        event.ctrlKey ||
        event.metaKey ||
        /^(INPUT|TEXTAREA)$/.test(event.target.tagName)
      )
        return
      event.preventDefault()
      byId('words').focus()
    })
  }

  /** Another run is shown. */
  clear() {
    byId('words').value = ''
    void this.#search()
  }

  async #search() {
    const turn = ++this.#turn
    const words = byId('words').value
    this.#found = []
    this.#at = -1
    this.#isWhole = words === ''
    this.#onWords(words)
    this.#show()
    if (words === '') return
    for (let from = 0; from !== null && this.#found.length < mostFound;) {
      const answer = await this.#get(`search?words=${encodeURIComponent(words)}&from=${from}`).catch(
        () => undefined,
      )
      if (turn !== this.#turn || !answer) return
      const isFirst = this.#found.length === 0 && answer.rows.length > 0
      this.#found.push(...answer.rows)
      from = answer.next
      this.#isWhole = from === null
      if (isFirst) this.#step(1)
      this.#show()
    }
    announce(this.#words())
  }

  #step(by) {
    const { length } = this.#found
    if (length === 0) return
    this.#at = (this.#at + by + length) % length
    this.#goTo(this.#found[this.#at])
    this.#show()
    announce(this.#words())
  }

  #words() {
    if (byId('words').value === '') return ''
    const { length } = this.#found
    const more = this.#isWhole ? '' : '+'
    if (length === 0) return this.#isWhole ? 'no match' : 'searching'
    return `${count(this.#at + 1)} of ${count(length)}${more}`
  }

  #show() {
    byId('found').textContent = this.#words()
    byId('next').disabled = byId('previous').disabled = this.#found.length === 0
  }
}
