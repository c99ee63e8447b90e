import { readFileSync } from 'node:fs'

/** Whether a process runs under the pid. A zombie that nobody has reaped yet is dead. */
export function isAlive(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))
  } catch {
    // One look, not two: it may go between them.
    return false
  }
}
