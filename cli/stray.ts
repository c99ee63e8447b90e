// Errors that a handler leaves behind: they end neither the command nor the work beside it.
import { inspect } from 'node:util'
import { stackOf } from '../lib/host'
import { tell } from './screen'

/** Tells of each on stderr until the returned function is called. */
export function tellOfStrays(command: string): () => void {
  const onStray = (error: unknown) => {
    const words = error instanceof Error ? (stackOf(error) ?? error.message) : inspect(error)
    tell(`${command}: a handler left an error behind: ${words}`)
  }
  process.on('unhandledRejection', onStray)
  process.on('uncaughtException', onStray)
  return () => {
    process.off('unhandledRejection', onStray)
    process.off('uncaughtException', onStray)
  }
}
