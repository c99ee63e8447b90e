// Figures as people read them, and elements.

/** Below it, times are told to the millisecond. */
const shortMs = 10_000

export function isShort({ durationMs, timeline }) {
  return (durationMs ?? timeline.heardMs) < shortMs
}

/** "40 ms", "1.234 s", "12.3 s", "3:20", "1:02:03". */
export function duration(ms) {
  if (ms === null || ms === undefined) return ''
  if (ms < 999.5) return `${Math.round(ms)} ms`
  if (ms < shortMs) return `${(ms / 1000).toFixed(3)} s`
  return ms < 59_950 ? `${(ms / 1000).toFixed(1)} s` : clock(ms)
}

/** "0:07", "3:20", "1:02:03". */
export function clock(ms) {
  const seconds = Math.floor(Math.max(0, ms) / 1000)
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60]
  if (parts[0] === 0) parts.shift()
  return parts.map((part, index) => (index === 0 ? `${part}` : `${part}`.padStart(2, '0'))).join(':')
}

/** The time of a row: "0:07.4", in a short run "0:07.412". */
export function moment(ms, isExact) {
  const digits = isExact ? `${Math.floor(ms) % 1000}`.padStart(3, '0') : Math.floor(ms / 100) % 10
  return `${clock(ms)}.${digits}`
}

/** "$0.0312", "$1.20". */
export function dollars(costUsd) {
  return `$${costUsd.toFixed(costUsd < 0.1 ? 4 : 2)}`
}

export function bytes(count) {
  if (count < 1000) return `${count} B`
  const units = ['kB', 'MB', 'GB', 'TB']
  let [value, unit] = [count, '']
  while (value >= 999.5 && units.length > 0) [value, unit] = [value / 1000, units.shift()]
  return `${value.toFixed(value < 99.95 ? 1 : 0)} ${unit}`
}

export function count(number) {
  return number.toLocaleString('en-US')
}

const hour = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }

/** "Nov 21, 14:25"; the year as well when it is another one. */
export function time(epochMs) {
  const at = new Date(epochMs)
  const year = at.getFullYear() === new Date().getFullYear() ? {} : { year: 'numeric' }
  return at.toLocaleString('en-US', { month: 'short', day: 'numeric', ...year, ...hour })
}

/** "Sat, Nov 21, 2026, 14:25:58". */
export function fullTime(epochMs) {
  const day = { weekday: 'short', year: 'numeric', month: 'short', day: 'numeric' }
  return new Date(epochMs).toLocaleString('en-US', { ...day, ...hour, second: '2-digit' })
}

/** States by word and by shape: colour alone tells nobody anything. */
export const states = {
  waiting: ['waiting', '○'],
  running: ['running', '▶'],
  done: ['done', '✓'],
  failed: ['failed', '✗'],
  killed: ['killed', '■'],
  lost: ['host gone', '?'],
}

/** A state's shape, for eyes only. */
export function sign(state) {
  const shape = element('span', 'sign', states[state][1])
  shape.setAttribute('aria-hidden', 'true')
  return shape
}

/** Gives an element the class and the colour of a state. */
export function tint(node, kind, state) {
  node.className = `${kind} ${state}`
  node.style.setProperty('--tone', `var(--${state})`)
}

export const byId = (id) => document.getElementById(id)

/** Says it to a screen reader. */
export function announce(words) {
  byId('news').textContent = words
}

/** An element of a class with these inside: texts stay texts. */
export function element(name, className, ...inside) {
  const made = document.createElement(name)
  if (className) made.className = className
  made.append(...inside)
  return made
}

/** Fills an element with a table: a summary above it, heads for screen readers. Returns what draws its rows, each a list of cells. */
export function table(id, label, heads) {
  const [summary, body] = [element('summary'), element('tbody')]
  const cells = heads.map((head) => Object.assign(element('th', '', head), { scope: 'col' }))
  const head = element('thead', 'unseen', element('tr', '', ...cells))
  const region = element('div', '', element('table', '', head, body))
  region.setAttribute('role', 'region')
  region.setAttribute('aria-label', label)
  region.tabIndex = 0
  byId(id).append(summary, region)
  return (words, rows) => {
    summary.textContent = words
    body.replaceChildren(...rows)
  }
}

/** A row of a table. A cell is a text, an element, or nothing. */
export function tableRow(...cells) {
  return element('tr', '', ...cells.map((cell) => element('td', '', cell ?? '')))
}

/** A text that is cut where it has no room: the pointer shows all of it. */
export function cut(text, className = '') {
  const whole = element('span', className, text)
  whole.title = text
  return whole
}

/** "1 file", "1,200 files". */
export function many(number, one, several = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : several}`
}
