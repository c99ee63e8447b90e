// The part of our own stdin that a program gets.
import { fstatSync } from 'node:fs'

/**
 * Whether somebody redirected it: a pipe, a socket or a file, and not a terminal, whose reader would be stopped for being in the
 * background.
 */
export function isRedirected(): boolean {
  try {
    const kind = fstatSync(0)
    return kind.isFIFO() || kind.isSocket() || kind.isFile()
  } catch {
    return false
  }
}
