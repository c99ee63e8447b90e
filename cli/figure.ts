// Durations, sizes and counts as people read them. PURE.

/** "40 ms", "12.3 s", "3:20", "1:02:03". */
export function showDuration(ms: number): string {
  if (ms < 999.5) return `${Math.round(ms)} ms`
  return ms < 59_950 ? `${(ms / 1000).toFixed(1)} s` : showClock(Math.round(ms / 1000) * 1000)
}

/** "0:07", "3:20", "1:02:03": whole seconds, rounded down. */
export function showClock(ms: number): string {
  const seconds = Math.floor(Math.max(0, ms) / 1000)
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60]
  if (parts[0] === 0) parts.shift()
  return parts.map((part, index) => (index === 0 ? `${part}` : `${part}`.padStart(2, '0'))).join(':')
}

/** "512 B", "3.4 kB", "1.2 MB". */
export function showBytes(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`
  const units = ['kB', 'MB', 'GB', 'TB']
  let value = bytes
  let unit = ''
  while (value >= 999.5 && units.length > 0) {
    value /= 1000
    unit = units.shift()!
  }
  return `${value.toFixed(value < 99.95 ? 1 : 0)} ${unit}`
}

/** "1 line", "12 lines". */
export function showCount(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}

/** Whether it is a number that a `Date` can be, and that sums stand: a file that was written down can have others. */
export function isFigure(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) <= 8.64e15
}
