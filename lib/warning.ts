// Process warnings, for faults that no promise of the caller's can report.
import { harmless } from './plain-text'

const told = new Set<string>()

/** The same words once a process. */
export function warnOnce(message: string): void {
  if (told.has(message)) return
  told.add(message)
  // Node writes a warning as it is, and it may quote a program.
  process.emitWarning(harmless(message), 'SheepdogWarning')
}
