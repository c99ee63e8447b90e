// Which agents are there.
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { doctor, type Finding } from '..'
import { folder, isAlive } from './played-agent'

/** A folder for PATH with a `codex` that does this. */
function codexThat(name: string, script: string): string {
  const bin = join(folder, name)
  mkdirSync(bin)
  writeFileSync(join(bin, 'codex'), `#!/bin/sh\n${script}\n`)
  chmodSync(join(bin, 'codex'), 0o755)
  return bin
}

describe('doctor', () => {
  it('tells of every provider whether it is there, and how to install it', async () => {
    const findings = await doctor({ env: { PATH: folder } })
    expect(findings.map(({ provider }) => provider)).toEqual(
      expect.arrayContaining(['claude-code', 'codex', 'pi']),
    )
    expect(new Set(findings.map(({ provider }) => provider)).size).toBe(findings.length)
    for (const finding of findings) {
      expect(finding).toMatchObject({
        found: false,
        install: expect.stringContaining('npm install'),
        problem: expect.any(String),
      })
    }
    await expect(doctor({ signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'AGENT_ABORTED' })
  })

  it('says which version is there, and why one does not start', async () => {
    const starts = await doctor({ env: { PATH: codexThat('starts', 'echo codex-cli 1.2.3') } })
    expect(starts.find(({ provider }) => provider === 'codex')).toMatchObject({
      found: true,
      version: '1.2.3',
    })
    const broken = await doctor({ env: { PATH: codexThat('broken', 'echo no libc >&2; exit 4') } })
    expect(broken.find(({ provider }) => provider === 'codex')).toMatchObject({
      found: true,
      problem: 'it does not start (exit code 4): no libc',
    })
  })

  it('shakes hands with each program that speaks the protocol of sessions', async () => {
    const agent = join(__dirname, '../fixtures/acp/agent.mjs')
    const speaks = (name: string, args: string) => {
      const path = codexThat(name, 'echo codex-cli 1.2.3')
      writeFileSync(join(path, 'codex-acp'), `#!/bin/sh\nexec '${process.execPath}' '${agent}' ${args}\n`)
      chmodSync(join(path, 'codex-acp'), 0o755)
      return doctor({ env: { PATH: path } })
    }
    const [good, broken] = await Promise.all([
      speaks('speaks', '--version 2'),
      speaks('speaks-not', '--start initialize-exit'),
    ])
    const session = (findings: Finding[], name = 'codex') =>
      findings.find(({ provider }) => provider === name)?.session
    expect(session(good)).toMatchObject({
      found: true,
      protocolVersion: 2,
      path: expect.stringContaining('codex-acp'),
    })
    expect(session(broken)).toMatchObject({
      found: true,
      problem: expect.stringContaining('cannot find my configuration'),
    })
    expect(session(good, 'pi')).toMatchObject({
      found: false,
      problem: 'pi-acp was not found on PATH',
      install: expect.stringContaining('npm install -g pi-acp@'),
    })
  })

  it('ends what it started when it is aborted', async () => {
    const file = join(folder, 'pid')
    const temporary = join(folder, 'temporary')
    mkdirSync(temporary)
    // A shell's own loop: its PATH holds no other program.
    const path = codexThat('hangs', `trap '' TERM; echo $$ > '${file}'; while :; do :; done`)
    const controller = new AbortController()
    const examination = doctor({ env: { PATH: path, TMPDIR: temporary }, signal: controller.signal })
    await vi.waitUntil(() => existsSync(file) && readFileSync(file, 'utf8').endsWith('\n'), {
      timeout: 30_000,
    })
    controller.abort(new Error('enough'))
    await expect(examination).rejects.toMatchObject({
      code: 'AGENT_ABORTED',
      cause: expect.objectContaining({ message: 'enough' }),
    })
    expect(isAlive(Number(readFileSync(file, 'utf8')))).toBe(false)
    expect(readdirSync(temporary)).toEqual([])
  })
})
