// Ctrl-C and its kin, as steps: the first asks the run to end, the second insists, the third leaves.

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
