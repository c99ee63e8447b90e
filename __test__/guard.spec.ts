import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'

const hasStrace = spawnSync('strace', ['-V']).status === 0

describe.runIf(process.platform === 'linux' && hasStrace)('starting a run', () => {
  it('never copies the host: each of its new processes borrows its memory until it is another program', () => {
    const folder = mkdtempSync(join(tmpdir(), 'sheepdog-strace-'))
    try {
      const code = `const { run } = require(${JSON.stringify(join(__dirname, '../index.js'))}); run('true').then(() => run('true'))`
      // A file for each process: in one for all, a call during which another process is heard of is cut in two.
      const traced = ['-ff', '-qq', '-e', 'trace=clone,clone3,fork,vfork,execve', '-o', join(folder, 'of')]
      const ended = spawnSync('strace', [...traced, process.execPath, '-e', code])
      expect(ended.status, String(ended.stderr)).toBe(0)
      const calls = new Map(
        readdirSync(folder).map((name) => [name, readFileSync(join(folder, name), 'utf8').split('\n')]),
      )
      // Processes that have executed something else are not the host any more; of its threads none ever does.
      const others = [...calls.keys()].filter((name) =>
        calls.get(name)!.some((line) => line.startsWith('execve("/proc')),
      )
      expect(others.length).toBeGreaterThanOrEqual(2)
      const fromGuards = new Set(others)
      // A set gives what is added on the way as well.
      for (const name of fromGuards)
        for (const line of calls.get(name) ?? []) {
          const child = /^(?:clone3?|fork|vfork)\(.* = (\d+)$/.exec(line)?.[1]
          if (child) fromGuards.add(`of.${child}`)
        }
      const ofHost = [...calls].filter(([name]) => !fromGuards.has(name)).flatMap(([, lines]) => lines)
      const begun = ofHost.filter((line) => /^(clone3?|fork|vfork)\(/.test(line))
      expect(begun.filter((line) => /CLONE_VFORK|^vfork/.test(line)).length).toBeGreaterThanOrEqual(2)
      expect(begun.filter((line) => !/CLONE_THREAD|CLONE_VFORK|^vfork/.test(line))).toEqual([])
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
