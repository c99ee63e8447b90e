// Which agents are there.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { doctor, Harness, run, type Finding } from '..'
import { command } from './cli-command'
import { isAlive } from './alive'
import { failure, folder } from './played-agent'

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

  it.runIf(process.getuid?.() === 0)(
    'reports on all agents as a user that the system does not know',
    async () => {
      const args = [
        '--reuid=54321',
        '--regid=54321',
        '--clear-groups',
        process.execPath,
        command,
        'doctor',
        '--json',
      ]
      const { stdout, stderr } = await run('setpriv', args, {
        env: { HOME: undefined, PATH: '/usr/bin:/bin' },
      })
      expect(stderr).toBe('')
      const found = JSON.parse(stdout) as { provider: string; signIn: { lookedFor: string[] } }[]
      const codex = found.find(({ provider }) => provider === 'codex')
      expect(codex?.signIn.lookedFor).toContain('/(home unknown)/.codex/auth.json')
    },
  )

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
      problem: expect.stringMatching(/^pi-acp was not found on PATH, nor in node_modules\/\.bin of/),
      install: expect.stringContaining('npm install -g pi-acp@'),
    })
  })

  it('finds the same in a folder that was deleted', async () => {
    const gone = join(folder, 'gone')
    mkdirSync(gone)
    const script = `
      require('node:fs').rmdirSync(${JSON.stringify(gone)})
      require(${JSON.stringify(join(__dirname, '..'))})
        .doctor({ env: { PATH: ${JSON.stringify(folder)} } })
        .then((findings) => console.log(JSON.stringify(findings.map(({ session }) => session))))`
    const { stdout } = await run(process.execPath, ['-e', script], { cwd: gone })
    const here = await doctor({ env: { PATH: folder } })
    expect(JSON.parse(stdout)).toEqual(here.map(({ session }) => session))
  })

  it('names a program of the folder that is not on PATH', async () => {
    const cwd = join(folder, 'packages')
    mkdirSync(join(cwd, 'node_modules'), { recursive: true })
    renameSync(codexThat('of-the-folder', 'echo codex-cli 1.2.3'), join(cwd, 'node_modules/.bin'))
    const env = { PATH: '/nonexistent' }
    const named = `name it in \`binary\``
    // It looks around the working directory of this process: qwen is among the packages here.
    const [finding] = await doctor({ providers: ['qwen'], env })
    expect(finding).toMatchObject({ found: false, problem: expect.stringContaining(named) })
    const error = await failure(new Harness({ provider: 'codex', cwd, env }).run('hi'))
    expect(error).toMatchObject({ code: 'AGENT_NOT_FOUND', message: expect.stringContaining(named) })
  })

  it('says that an agent needs a newer Node, where an older one runs it', async () => {
    const agent = join(__dirname, '../fixtures/acp/agent.mjs')
    const examine = async (name: string, version: string) => {
      const path = join(folder, name)
      mkdirSync(path)
      const write = (program: string, text: string) =>
        writeFileSync(join(path, program), text, { mode: 0o755 })
      // As pi-acp with Node 20: it greets, and can't open a session.
      write(
        'node',
        `#!/bin/sh\n[ "$1" = --version ] && echo ${version} && exit\nexec '${process.execPath}' "$@"\n`,
      )
      write('pi-acp', `#!/usr/bin/env node\nprocess.argv.push('--start', 'new-exit')\nimport('${agent}')\n`)
      const env = { PATH: `${path}:/usr/bin:/bin` }
      const [finding] = await doctor({ providers: ['pi'], env })
      const error = await failure(new Harness({ provider: 'pi', env, permission: 'auto' }).open())
      return [finding!.session.problem, error.message]
    }
    const said = 'pi needs Node.js 22.19 or newer, and the `node` on its PATH is 20.1.0'
    expect(await examine('old-node', 'v20.1.0')).toEqual([said, expect.stringContaining(said)])
    expect(await examine('new-node', 'v22.19.0')).toEqual([undefined, expect.not.stringContaining('Node.js')])
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
