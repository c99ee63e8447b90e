// A host that dies in the middle of a turn.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, it, vi } from 'vitest'
import type { SheepdogError } from '..'
import { folder, played, player, said, session } from './played-agent'

function host(plan: object[], temporary: string, after: string) {
  const script = `
    const { Harness } = require(${JSON.stringify(join(__dirname, '..'))})
    const binary = [process.execPath, ...${JSON.stringify([player, JSON.stringify(plan)])}]
    const turn = new Harness({ provider: 'codex', binary }).start('hi')
    ;(async () => { for await (const event of turn) if (event.type === 'text') { console.log(event.text); ${after} } })()`
  const child = spawn(process.execPath, ['-e', script], {
    cwd: folder,
    env: { PATH: process.env.PATH, TMPDIR: temporary },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const exit = once(child, 'exit')
  return { child, exit, lines: createInterface({ input: child.stdout })[Symbol.asyncIterator]() }
}

/** Whether a process has this as its temporary folder. */
function livesIn(place: string): boolean {
  return readdirSync('/proc').some((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`TMPDIR=${place}\0`)
    } catch {
      return false
    }
  })
}

it.skipIf(process.platform !== 'linux')(
  'takes the agent with it, and the next host in its place removes what it left',
  async () => {
    const temporary = mkdtempSync(join(folder, 'temporary-'))
    const first = host([session, { tell: 'env' }, { hang: true }], temporary, '')
    const env = JSON.parse((await first.lines.next()).value!)
    expect(env.TMPDIR.startsWith(temporary)).toBe(true)
    first.child.kill('SIGKILL')
    await first.exit
    await vi.waitUntil(() => !livesIn(env.TMPDIR), { timeout: 60_000 })
    expect(readdirSync(temporary)).toHaveLength(1)
    const second = host([session, said('Hello.'), { exit: 0 }], temporary, '')
    await second.exit
    await expect.poll(() => readdirSync(temporary)).toEqual([])
  },
)

it.each([
  ['TMPDIR', undefined, { TMPDIR: '/proc' }, 'mkdir', /^cannot create a temporary folder in \/proc: /],
  [
    'HOME',
    'workspace',
    { HOME: '/proc/none' },
    'mkdir',
    /^cannot create \/proc\/none\/\.codex\/sessions, the state folder/,
  ],
] as const)(
  'says what the system refused where %s can not be written',
  async (_, sandbox, env, syscall, message) => {
    const turn = played([session], { env, sandbox }).run('hi')
    const error = (await turn.catch((error: unknown) => error)) as SheepdogError
    expect(error).toMatchObject({ code: 'PROCESS_SPAWN_FAILED', syscall, errno: expect.any(Number) })
    expect(error.message).toMatch(message)
    expect(error.message).not.toContain('PROCESS_')
  },
)
