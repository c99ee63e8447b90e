// Process warnings, for faults that no promise of the caller's can report.
const told = new Set<string>()

/** The same words once a process. */
export function warnOnce(message: string): void {
  if (told.has(message)) return
  told.add(message)
  process.emitWarning(message, 'SheepdogWarning')
}
