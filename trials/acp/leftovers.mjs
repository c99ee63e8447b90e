// The processes that a case leaves behind.
import { processesIn } from '../../fixtures/agent-cases.mjs'
import { wait } from '../cases.mjs'

/** An agent may take so long to be gone after its client. */
export const GRACE_MS = 5000

/** The pids that are still alive in a place after that time, at most. */
export async function leftoversIn(place) {
  const until = performance.now() + GRACE_MS
  while (processesIn(place).length > 0 && performance.now() < until) await wait(100)
  return processesIn(place)
}

export function killAll(pids) {
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It has just ended.
    }
  }
}
