import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'

const hasStrace = spawnSync('strace', ['-V']).status === 0

describe.runIf(process.platform === 'linux' && hasStrace)('starting a run', () => {
  it('never copies the host: each of its new processes borrows its memory until it is another program', () => {
    const folder = mkdtempSync(join(tmpdir(), 'sheepdog-strace-'))
    try {
      const log = join(folder, 'log')
      const code = `const { run } = require(${JSON.stringify(join(__dirname, '../index.js'))}); run('true').then(() => run('true'))`
      const traced = ['-f', '-qq', '-e', 'trace=clone,clone3,fork,vfork,execve', '-o', log]
      const ended = spawnSync('strace', [...traced, process.execPath, '-e', code])
      expect(ended.status, String(ended.stderr)).toBe(0)
      const lines = readFileSync(log, 'utf8').split('\n')
      // Processes that have executed something else are not the host any more; of its threads none ever does.
      const others = new Set(
        lines.filter((line) => /execve\("\/proc/.test(line)).map((line) => line.split(' ')[0]),
      )
      expect(others.size).toBeGreaterThanOrEqual(2)
      const fromGuards = new Set(others)
      const copies: string[] = []
      for (const line of lines) {
        const [pid] = line.split(' ')
        if (!/ (clone3?|fork|vfork)\(/.test(line)) continue
        if (fromGuards.has(pid)) {
          const child = /= (\d+)$/.exec(line)?.[1]
          if (child) fromGuards.add(child)
        } else if (!/CLONE_THREAD|CLONE_VFORK|vfork\(/.test(line)) copies.push(line)
      }
      // The inner guard's own line may be cut in two by strace; it borrows memory too.
      expect(copies).toEqual([])
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
