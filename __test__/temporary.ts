// One folder for all that the tests put into the system's folder for temporary files: gone when they are done.
import { chmodSync, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export default function setup(): () => Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'sheepdog-'))
  // Some tests have programs of other users look into their folders.
  chmodSync(folder, 0o755)
  process.env.TMPDIR = folder
  // Not at one go: vitest has to hear its workers' last words meanwhile.
  return () => rm(folder, { recursive: true, force: true, maxRetries: 3 })
}
