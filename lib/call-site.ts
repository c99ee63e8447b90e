// The place where a caller was when a promise was made for it: an error that comes home later has no stack of its own.

import { stackOf } from './host'

/** A place in the program; its text is made when it is asked for, which only an error does. */
export type CallSite = Error

/** The place that called into this package. Costs some microseconds: once a run or a request, never once a line. */
export function callSite(): CallSite {
  // Half the price of captureStackTrace(), which could leave out our own frames.
  return new Error()
}

const placed = new WeakSet<Error>()

/** The error, as if it had been made at the site. One that has a place keeps it. One that can't be changed goes on as it is. */
export function at<E>(error: E, site: CallSite | undefined): E {
  if (site && error instanceof Error && !placed.has(error)) {
    try {
      place(error, site)
    } catch {
      // It is frozen, or one of its properties throws: the error itself is worth more than its place.
    }
  }
  return error
}

function place(error: Error, site: CallSite): void {
  const frames = stackOf(site)?.split('\n').slice(1) ?? []
  const first = frames.findIndex((frame) => !frame.includes(__dirname) && !frame.includes('node:internal/'))
  if (first < 0) return
  const value = [`${error.name}: ${error.message}`, ...frames.slice(first)].join('\n')
  Object.defineProperty(error, 'stack', { value, configurable: true, writable: true })
  placed.add(error)
}

/** The promise, its error placed. */
export async function placedAt<T>(promise: Promise<T>, site: CallSite): Promise<T> {
  try {
    return await promise
  } catch (error) {
    throw at(error, site)
  }
}
