// What is left of a session after a failure: the lock of a dead process, the custom agent of a resumed session, a failed turn.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { rejection, scripted, temporaryFolder } from './copilot/peer'

const answerOf = (event: unknown) => (event as { data: { content: string } } | undefined)?.data.content

async function goneProcess(): Promise<number> {
  const child = spawn('true')
  await once(child, 'exit')
  return child.pid!
}

/** A home in which this process has the session "s" open. */
function homeLockedBy(pid: number) {
  const home = temporaryFolder()
  const folder = join(home, 'session-state', 's')
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'events.jsonl'), '')
  const lock = join(folder, `inuse.${pid}.lock`)
  writeFileSync(lock, String(pid))
  return { ...scripted(['--in-use-while', lock], { baseDirectory: home }), lock }
}

describe('a session that is in use', () => {
  it('by a process that is gone says so, and is taken over on demand', async () => {
    const pid = await goneProcess()
    const { client, lock } = homeLockedBy(pid)
    const error = await rejection(client.resumeSession('s'))
    expect(error).toMatchObject({ code: 'RESUME_IN_USE', pid, stale: true })
    expect(existsSync(lock)).toBe(true)
    const session = await client.resumeSession('s', { takeOver: 'stale' })
    expect(session.resumed).toBe('resumed')
    expect(session.resumeReason).toContain(`process ${pid}`)
    expect(existsSync(lock)).toBe(false)
  })

  it('by a living process is never taken over', async () => {
    const { client, lock } = homeLockedBy(process.pid)
    for (const options of [{}, { takeOver: 'stale' as const }]) {
      const error = await rejection(client.resumeSession('s', {}, options))
      expect(error).toMatchObject({ code: 'RESUME_IN_USE', pid: process.pid, stale: false })
    }
    expect(existsSync(lock)).toBe(true)
  })

  it('can be taken over in one way only', async () => {
    const { client } = scripted()
    const error = await rejection(client.resumeSession('s', { takeOver: 'all' as 'stale' }))
    expect(error).toMatchObject({ code: 'INVALID_OPTION' })
    expect(error.message).toContain('takeOver')
  })
})

describe('the custom agent of a session that is resumed', () => {
  const agent = { agent: 'rev', customAgents: [{ name: 'rev', prompt: 'review' }] }
  const told = (...events: [string, object][]) => ['--resume-events', JSON.stringify(events)]
  const selects = (asked: { method?: string }[]) =>
    asked.filter(({ method }) => method === 'session.agent.select').length

  it('that the runtime selected is left alone', async () => {
    const { client, asked } = scripted(
      told(['session.resume', {}], ['subagent.selected', { agentName: 'rev', tools: [] }]),
    )
    expect((await client.resumeSession('s', agent)).resumed).toBe('resumed')
    expect(selects(asked())).toBe(0)
  })

  it('that the runtime dropped is selected again', async () => {
    const { client, asked } = scripted([...told(['session.resume', {}]), '--knows', 'session.agent.select'])
    const session = await client.resumeSession('s', agent)
    expect(session.resumed).toBe('resumed')
    expect(session.resumeReason).toContain('its agent "rev" had to be selected again')
    expect(selects(asked())).toBe(1)
  })

  it('that can not be selected again is reported', async () => {
    const { client } = scripted(told(['session.resume', {}]))
    const session = await client.resumeSession('s', agent)
    expect(session.resumed).toBe('without-agent')
    expect(session.resumeReason).toContain('could not be selected')
  })
})

describe('retry()', () => {
  it('runs the history again without a second user message', async () => {
    const { client, asked } = scripted(['--retries', 'retry-answers'])
    const session = await client.createSession()
    expect(answerOf(await session.retry({ timeoutMs: 30_000 }))).toBe('this time it worked')
    const [request] = asked().filter(({ method }) => method === 'session.sendMessages')
    expect(request?.params).toEqual({ sessionId: session.sessionId, messages: [] })
    expect(asked().some(({ method }) => method === 'session.send' || method === 'session.sendAndWait')).toBe(
      false,
    )
  })

  it('fails as a turn does', async () => {
    const { client } = scripted(['--retries', 'retry-fails'])
    const session = await client.createSession()
    expect(await rejection(session.retry({ timeoutMs: 30_000 }))).toMatchObject({
      code: 'SESSION_ERROR',
      message: 'still down',
    })
  })

  it('is INVALID_OPTION where the runtime can not', async () => {
    const { client } = scripted()
    const session = await client.createSession()
    const error = await rejection(session.retry())
    expect(error).toMatchObject({ code: 'INVALID_OPTION' })
    expect(error.message).toContain('Send the message again')
  })

  it('is INVALID_OPTION while a turn runs', async () => {
    const { client } = scripted(['--retries', 'retry-answers', '--waits', 'wait-hangs'])
    const session = await client.createSession()
    const open = rejection(session.sendAndWait('hangs', 500))
    await new Promise<void>((resolve) => session.on('user.message', () => resolve()))
    expect(await rejection(session.retry())).toMatchObject({ code: 'INVALID_OPTION' })
    await open
  })
})
