// Ctrl-C and its kin, as steps: the first asks the run to end, the second insists, the third leaves. Ctrl-Z and its return.
import { constants } from 'node:os'

export type Interrupt = 'SIGINT' | 'SIGTERM' | 'SIGHUP' | 'SIGQUIT'

const interrupts: Interrupt[] = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT']

/** A watch for signals, until it is ended. */
export interface InterruptWatch {
  /** The signal that came. */
  signal?: Interrupt
  end(): void
}

/** Calls the steps in turn, one a signal; past the last the last again. */
export function onInterrupt(...steps: ((signal: Interrupt) => void)[]): InterruptWatch {
  let count = 0
  const listener = (signal: NodeJS.Signals) => {
    watch.signal = signal as Interrupt
    steps[Math.min(count++, steps.length - 1)]?.(signal as Interrupt)
  }
  for (const signal of interrupts) process.on(signal, listener)
  const watch: InterruptWatch = {
    end() {
      for (const signal of interrupts) process.off(signal, listener)
    },
  }
  return watch
}

/** Resolves at a signal; the next one ends this process. */
export function untilInterrupt(): Promise<void> {
  return new Promise((resolve) => {
    const watch = onInterrupt(() => {
      watch.end()
      resolve()
    })
  })
}

/**
 * Takes part in the terminal's job control: `stop` is called before this process is stopped by Ctrl-Z, and `goOn` when it goes on.
 * The returned function ends it.
 */
export function onJobControl(stop: () => void, goOn: () => void): () => void {
  const onStop = () => {
    stop()
    // The default stops this process within the call, or does nothing where no shell could continue it.
    process.off('SIGTSTP', onStop)
    process.kill(process.pid, 'SIGTSTP')
    process.on('SIGTSTP', onStop)
    goOn()
  }
  process.on('SIGTSTP', onStop).on('SIGCONT', goOn)
  return () => void process.off('SIGTSTP', onStop).off('SIGCONT', goOn)
}

/** As a shell shows an end by a signal. A name without a number in Node is the number itself: "SIG34". */
export function signalStatus(signal: string | null): number {
  const number =
    constants.signals[signal as NodeJS.Signals] ?? Number(/^SIG(?:RT)?(\d+)$/.exec(signal ?? '')?.[1] ?? 0)
  return number > 0 ? 128 + number : 1
}

/**
 * Ends this process as the signal asked for. By SIGINT it is ended by the signal itself: a shell's loop stops when a command was
 * interrupted, and goes on when it ended with 130 by itself. Of the others nobody asks more than the status.
 */
export function leaveBy(signal: Interrupt): void {
  if (signal === 'SIGINT') {
    process.removeAllListeners(signal)
    process.kill(process.pid, signal)
  }
  // Process 1 of a container goes on: the kernel drops a signal that it has no handler for.
  process.exit(signalStatus(signal))
}
