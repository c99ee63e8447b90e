import { readFileSync } from 'node:fs'

/** Whether a process runs under the pid. On Linux a zombie that nobody has reaped yet is dead; elsewhere there is no /proc to tell. */
export function isAlive(pid: number): boolean {
  try {
    if (process.platform !== 'linux') return process.kill(pid, 0)
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'))
  } catch {
    // One look, not two: it may go between them.
    return false
  }
}
