// Figures as people read them, and elements.

/** "40 ms", "12.3 s", "3:20", "1:02:03". */
export function duration(ms) {
  if (ms === null || ms === undefined) return ''
  if (ms < 999.5) return `${Math.round(ms)} ms`
  return ms < 59_950 ? `${(ms / 1000).toFixed(1)} s` : clock(ms)
}

/** "0:07", "3:20", "1:02:03". */
export function clock(ms) {
  const seconds = Math.floor(Math.max(0, ms) / 1000)
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60]
  if (parts[0] === 0) parts.shift()
  return parts.map((part, index) => (index === 0 ? `${part}` : `${part}`.padStart(2, '0'))).join(':')
}

/** The time of a row: "0:07.4". */
export function moment(ms) {
  return `${clock(ms)}.${Math.floor(ms / 100) % 10}`
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

/** "14:25" of today, "Nov 21, 14:25" of another day. */
export function time(epochMs) {
  const at = new Date(epochMs)
  const hour = at.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
  if (at.toDateString() === new Date().toDateString()) return hour
  return `${at.toLocaleDateString([], { month: 'short', day: 'numeric' })}, ${hour}`
}

/** An element of a class with these inside: texts stay texts. */
export function element(name, className, ...inside) {
  const made = document.createElement(name)
  if (className) made.className = className
  made.append(...inside)
  return made
}
