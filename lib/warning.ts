<<<<<<< HEAD
// Process warnings, for faults that no promise of the caller's can report.
=======
// What nobody asked for, so that nobody can be told of it by an error.
import { harmless } from './plain-text'

>>>>>>> 6a209703051bea5ba27c544ad3fc94630e36c7d6
const told = new Set<string>()

/** The same words once a process. */
export function warnOnce(message: string): void {
  if (told.has(message)) return
  told.add(message)
  // Node writes a warning as it is, and it may quote a program.
  process.emitWarning(harmless(message), 'SheepdogWarning')
}
