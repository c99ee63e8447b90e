// Ctrl-C and its kin, as steps: the first asks the run to end, the second insists, the third leaves.
import { constants } from 'node:os'

export type Interrupt = 'SIGINT' | 'SIGTERM' | 'SIGHUP'

const interrupts: Interrupt[] = ['SIGINT', 'SIGTERM', 'SIGHUP']

/** Calls the steps in turn, one a signal; past the last the last again. The returned function ends it. */
export function onInterrupt(...steps: ((signal: Interrupt) => void)[]): () => void {
  let count = 0
  const listener = (signal: NodeJS.Signals) =>
    steps[Math.min(count++, steps.length - 1)]?.(signal as Interrupt)
  for (const signal of interrupts) process.on(signal, listener)
  return () => {
    for (const signal of interrupts) process.off(signal, listener)
  }
}

/** As a shell shows an end by a signal. */
export function signalStatus(signal: string | null): number {
  return 128 + (constants.signals[signal as NodeJS.Signals] ?? 0)
}

/**
 * Ends this process as the signal asked for. By SIGINT it is ended by the signal itself: a shell's loop stops when a command was
 * interrupted, and goes on when it ended with 130 by itself. Of the others nobody asks more than the status.
 */
export function leaveBy(signal: Interrupt): void {
  if (signal !== 'SIGINT') process.exit(signalStatus(signal))
  process.removeAllListeners(signal)
  process.kill(process.pid, signal)
}
