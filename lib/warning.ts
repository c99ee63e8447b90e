// What nobody asked for, so that nobody can be told of it by an error.
const told = new Set<string>()

/** The same words once a process. */
export function warnOnce(message: string): void {
  if (told.has(message)) return
  told.add(message)
  process.emitWarning(message, 'SheepdogWarning')
}
