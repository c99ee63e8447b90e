// Which kind of file a stream of ours is.
import { fstatSync } from 'node:fs'

/**
 * Whether somebody redirected it: a pipe, a socket or a file, and not a terminal, whose reader would be stopped for being in the
 * background.
 */
export const isRedirected = (): boolean => isPipe(0, true)

/** Whether it is a pipe, a socket or, if asked, a file. */
export function isPipe(descriptor: number, orFile = false): boolean {
  try {
    const kind = fstatSync(descriptor)
    return kind.isFIFO() || kind.isSocket() || (orFile && kind.isFile())
  } catch {
    return false
  }
}
