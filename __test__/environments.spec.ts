// Machines that lack or refuse something: runs, spawns, turns, sessions and doctor there, sandboxed and not. Each works, or names what is
// missing, and sandboxSupport() says the same as what happens.
import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { answer } from './played-agent'

const root = join(import.meta.dirname, '..')
const folder = mkdtempSync(join(tmpdir(), 'environments-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const answerFile = join(folder, 'answer')
writeFileSync(answerFile, answer.map(({ line }) => `${JSON.stringify(line)}\n`).join(''))

/** Numbers of x86-64, with the first argument where only that is refused. */
const calls: Record<string, [number, number?]> = {
  openat2: [437],
  landlock_create_ruleset: [444],
  landlock_restrict_self: [446],
  'prctl(PR_SET_NO_NEW_PRIVS)': [157, 38],
  'prctl(PR_SET_CHILD_SUBREAPER)': [157, 36],
  'prctl(PR_SET_SECCOMP)': [157, 22],
  seccomp: [317],
  pidfd_open: [434],
  pidfd_getfd: [438],
  process_vm_readv: [310],
  memfd_create: [319],
  signalfd4: [289],
  close_range: [436],
  setsid: [112],
}

/** How a host is started. */
const environments: Record<string, string[]> = { 'nothing refused': [] }
if (process.arch === 'x64')
  for (const [name, [number, argument]] of Object.entries(calls))
    for (const errno of ['EPERM', 'ENOSYS'] as const)
      environments[`${name} refused with ${errno}`] = [
        'python3',
        join(root, 'fixtures/host/refuse.py'),
        `${number}`,
        `${argument ?? '-'}`,
        `${constants.errno[errno]}`,
      ]
Object.assign(environments, {
  'a user namespace': ['unshare', '--user', '--map-current-user'],
  'a PID namespace with its own /proc': ['unshare', '--user', '--map-root-user', '-pf', '--mount-proc'],
  'a PID namespace with the /proc outside of it': ['unshare', '--user', '--map-root-user', '-pf'],
  'a network namespace': ['unshare', '--user', '--map-root-user', '--net'],
  'files of 8 KiB': ['prlimit', '--fsize=8192'],
  '64 descriptors': ['prlimit', '--nofile=64'],
  'no core files, a small stack': ['prlimit', '--core=0', '--stack=1048576'],
})

const body = `
  const { run, spawn, doctor, Harness, sandboxSupport } = require(${JSON.stringify(root)})
  const folder = ${JSON.stringify(folder)}
  const sandbox = { write: [folder] }
  const { scriptedAgent } = require(${JSON.stringify(join(root, 'entries/testing.js'))})
  const works = {
    run: async (options) => (await run('sh', ['-c', 'echo fine'], options)).stdout.trim(),
    spawn: async (options) => { for await (const { text } of spawn('sh', ['-c', 'echo fine'], options)) return text },
    turn: async (options) => (await new Harness({ provider: 'codex', binary: ['sh', '-c', ${JSON.stringify(`cat ${answerFile}`)}], cwd: folder, ...options }).run('hi')).text,
    session: async (options) => {
      const provider = scriptedAgent([{ stallMs: 10, say: 'Now.' }])
      const chat = await new Harness({ provider }).open({ cwd: folder, ...options })
      try { return (await chat.prompt('hi')).text } finally { await chat.close() }
    },
  }
  const told = async (work, options) => work(options).then(
    (value) => ({ value }),
    ({ code, message, errno, syscall }) => ({ code, message, errno, syscall }),
  )
  ;(async () => {
    const ends = {}
    for (const [name, work] of Object.entries(works)) ends[name] = { plain: await told(work, {}), sandboxed: await told(work, { sandbox }) }
    const [finding] = await doctor({ providers: [scriptedAgent([])] }).catch(({ code, message }) => [{ problem: code + message }])
    process.stdout.write('<<' + JSON.stringify({ ends, support: sandboxSupport(), finding }) + '>>')
  })()`

interface Told {
  value?: string
  code?: string
  message?: string
}

interface Report {
  ends: Record<string, { plain: Told; sandboxed: Told }>
  support: { holds: string[]; problem?: string }
  finding: { problem?: string; session?: { protocolVersion?: number } }
}

function reportOf(start: string[]): Promise<Report> {
  const [file, ...args] = [...start, process.execPath, '-e', body]
  return new Promise((done, failed) =>
    execFile(file!, args, { cwd: folder, timeout: 60_000 }, (_, stdout, stderr) => {
      const told = /<<(.*)>>/s.exec(stdout)?.[1]
      if (told === undefined) failed(new Error(`the host told nothing: ${stdout}${stderr}`))
      else done(JSON.parse(told) as Report)
    }),
  )
}

const isPossible = ([file, ...args]: string[]) => {
  if (file === undefined) return true
  try {
    execFileSync(file, [...args, 'true'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

const good: Record<string, string> = { run: 'fine', spawn: 'fine', turn: 'Hello.', session: 'Now.' }

describe('a machine with', () => {
  it.concurrent.each(Object.entries(environments))('%s', { timeout: 90_000 }, async (name, start) => {
    if (!isPossible(start)) return
    const { ends, support, finding } = await reportOf(start)
    const isSandboxed = support.holds.includes('writes')
    const refused = /^(.*) refused with/.exec(name)?.[1]
    for (const [work, { plain, sandboxed }] of Object.entries(ends)) {
      expect([work, plain]).toEqual([work, { value: good[work] }])
      if (isSandboxed) expect([work, sandboxed]).toEqual([work, { value: good[work] }])
      else {
        expect([work, sandboxed.code]).toEqual([work, 'SANDBOX_UNAVAILABLE'])
        for (const words of [sandboxed.message, support.problem])
          expect(words).toContain(refused ?? 'File too large')
      }
    }
    expect(finding.session).toMatchObject({ protocolVersion: 1 })
  })
})
