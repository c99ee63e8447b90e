// Sessions with the scripted agent, in a folder of their own.
import { mkdtempSync, readFileSync, readdirSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { Harness, type OpenOptions } from '..'

export const folder = mkdtempSync(join(tmpdir(), 'session-spec-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

export const agent = join(__dirname, '..', 'fixtures', 'acp', 'agent.mjs')
export const scripted = (version: 1 | 2, start = '') => [
  'node',
  agent,
  '--version',
  String(version),
  '--start',
  start,
]

export function open(
  options: OpenOptions = {},
  version: 1 | 2 = 1,
  provider: 'gemini' | 'claude-code' | 'pi' = 'gemini',
) {
  return new Harness({ provider }).open({ binary: scripted(version), cwd: folder, ...options })
}

/** Processes of the session that runs in this folder. */
export const alive = () =>
  readdirSync('/proc').filter((pid) => {
    try {
      // Other specs run the same agent at the same time, in folders of their own.
      if (!/^\d+$/.test(pid) || readlinkSync(`/proc/${pid}/cwd`) !== folder) return false
      return readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes(agent)
    } catch {
      return false
    }
  })
