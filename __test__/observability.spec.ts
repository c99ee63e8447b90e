// The messages about runs, turns, tools and sessions on channels of Node's.
import { createRequire } from 'node:module'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { join } from 'node:path'
import { Fleet } from '../entries/fleet.js'
import { Harness, run, spawn } from '..'
import { RuntimeClient, serveRuntime } from '../entries/runtime.js'
import type { RunMessage, SessionMessage, ToolMessage, TurnMessage } from '..'
import {
  answer,
  done,
  failed,
  failure,
  folder,
  following,
  played,
  player,
  printed,
  said,
  session,
  tool,
} from './played-agent'
import { hasServer, newFolder } from './fleet-worker'
import { heard, types, withTool } from './observed-agent'

const native = createRequire(import.meta.url)('../native/native.js')

describe('the channel sheepdog:run', () => {
  it('tells of a run that ended, and of one that failed', async () => {
    const messages = heard<RunMessage>('sheepdog:run')
    const result = await run('sh', ['-c', 'echo hi'])
    const missing = await spawn('no-such-program-anywhere').result.catch((error) => error)
    expect(messages).toEqual([
      { phase: 'start', id: expect.any(Number), command: 'sh', args: ['-c', 'echo hi'], cwd: process.cwd() },
      { phase: 'end', id: messages[0]!.id, command: 'sh', durationMs: expect.any(Number), result },
      expect.objectContaining({ phase: 'start', command: 'no-such-program-anywhere' }),
      expect.objectContaining({ phase: 'end', id: messages[2]!.id, error: missing }),
    ])
    expect(messages[2]!.id).not.toBe(messages[0]!.id)
  })
})

describe('the channels sheepdog:turn and sheepdog:tool', () => {
  it('tell of a turn and its tools, although nobody iterates it', async () => {
    const turns = heard<TurnMessage>('sheepdog:turn')
    const tools = heard<ToolMessage>('sheepdog:tool')
    const result = await played(withTool, { model: 'm-1' }).run('List, please.')
    expect(turns, 'told before the promise settles').toHaveLength(2)
    expect(turns[0]).toMatchObject({
      phase: 'start',
      provider: 'codex',
      prompt: 'List, please.',
      model: 'm-1',
    })
    expect(turns[1]).toEqual({
      phase: 'end',
      id: turns[0]!.id,
      provider: 'codex',
      durationMs: expect.any(Number),
      result,
      error: undefined,
    })
    const shared = { id: tools[0]!.id, turn: turns[0]!.id, toolCallId: 'c', name: 'command_execution' }
    expect(tools).toEqual([
      { phase: 'start', ...shared, input: expect.anything() },
      {
        phase: 'end',
        ...shared,
        durationMs: expect.any(Number),
        output: 'a\n',
        exitCode: 0,
        isError: false,
        isCut: false,
      },
    ])
  })

  it('tell of a turn that failed, and that a tool was cut by it', async () => {
    const turns = heard<TurnMessage>('sheepdog:turn')
    const tools = heard<ToolMessage>('sheepdog:tool')
    const error = await failure(played([session, tool, failed('401 Unauthorized'), { exit: 1 }]).run('hi'))
    expect(turns).toHaveLength(2)
    expect(turns[1]).toMatchObject({ phase: 'end', error })
    expect(tools[1]).toMatchObject({ phase: 'end', isError: true, isCut: true })
  })

  it('tell of a turn that was never started', async () => {
    const turns = heard<TurnMessage>('sheepdog:turn')
    await failure(played(answer).run('hi', { signal: AbortSignal.abort() }))
    expect(turns.map(({ phase }) => phase)).toEqual(['start', 'end'])
    expect(turns[1]).toMatchObject({ error: { code: 'AGENT_ABORTED' } })
  })

  it('change nothing for whoever iterates the turn: all, late, or not to the end', async () => {
    const plain = await types(played(withTool).start('hi'))
    const tools = heard<ToolMessage>('sheepdog:tool')
    expect(await types(played(withTool).start('hi'))).toEqual(plain)

    const late = played(withTool).start('hi')
    await late.result
    expect(await types(late)).toEqual(plain)

    const left = played(withTool).start('hi')
    for await (const event of left) if (event.type === 'session') break
    await left.result
    expect(() => left[Symbol.asyncIterator]()).toThrow(/already being read/)
    await vi.waitFor(
      () => expect(tools.map(({ phase }) => phase)).toEqual(Array(3).fill(['start', 'end']).flat()),
      { timeout: 30_000 },
    )
  })

  it('do not hold back the result from a reader that stands still', async () => {
    heard('sheepdog:tool')
    const many = Array.from({ length: 300 }, (_, index) => said(`${index}`))
    const turn = played([printed(session, ...many, done)]).start('hi')
    const seen: string[] = []
    for await (const { type } of turn) {
      if (seen.length === 0) expect((await turn.result).text).toBe('299')
      seen.push(type)
    }
    expect(seen.filter((type) => type === 'text')).toHaveLength(300)
  })

  it('let a slow reader slow the agent, as ever', async () => {
    heard('sheepdog:tool')
    const many = Array.from({ length: 5000 }, (_, index) => said(`${index} ${'x'.repeat(2000)}`))
    const turn = played([printed(session, ...many, done)]).start('hi')
    let count = 0
    for await (const event of turn) {
      if (event.type !== 'text') continue
      if (count++ === 0) await new Promise((resolve) => setTimeout(resolve, 300))
    }
    expect(count).toBe(5000)
    expect((await turn.result).text).toMatch(/^4999 x/)
  })

  it('bring no events to JavaScript when nobody subscribed', async () => {
    const opened = vi.spyOn(native.NativeTurn.prototype, 'events')
    onTestFinished(() => opened.mockRestore())
    await played(withTool).run('hi')
    expect(opened).toHaveBeenCalledTimes(0)
    heard('sheepdog:turn')
    await played(withTool).run('hi')
    expect(opened, 'turns alone need none').toHaveBeenCalledTimes(0)
    heard('sheepdog:tool')
    await played(withTool).run('hi')
    expect(opened).toHaveBeenCalledTimes(1)
  })
})

describe('the channel sheepdog:session', () => {
  it('tells of a session, and the turns name it', async () => {
    const sessions = heard<SessionMessage>('sheepdog:session')
    const turns = heard<TurnMessage>('sheepdog:turn')
    const session = await following([{ say: 'Hello.' }]).open()
    await session.prompt('hello')
    await session.close()
    await session.close()
    const shared = { id: sessions[0]!.id, provider: 'scripted', durationMs: expect.any(Number) }
    expect(sessions).toEqual([
      { phase: 'start', id: shared.id, provider: 'scripted', cwd: folder, resume: undefined },
      { phase: 'open', ...shared, sessionId: 'scripted-1' },
      { phase: 'end', ...shared, sessionId: 'scripted-1', error: undefined },
    ])
    expect(turns.map(({ phase }) => phase)).toEqual(['start', 'end'])
    expect(turns[0]).toMatchObject({ session: shared.id, resume: 'scripted-1' })
  })

  it('tells why one could not be opened', async () => {
    const sessions = heard<SessionMessage>('sheepdog:session')
    const binary = ['node', '-e', 'process.exit(3)']
    const error = await failure(new Harness({ provider: 'gemini' }).open({ binary }))
    expect(sessions.map(({ phase }) => phase)).toEqual(['start', 'end'])
    expect(sessions[1]).toMatchObject({ error })
  })
})

describe('turns that the core runs', () => {
  const binary = ['node', player, JSON.stringify(withTool)]
  const toldOf = (turns: TurnMessage[], tools: ToolMessage[]) => {
    const { id } = turns[0]!
    expect(tools).toEqual([
      expect.objectContaining({ phase: 'start', turn: id, toolCallId: 'c', input: expect.anything() }),
      expect.objectContaining({ phase: 'end', turn: id, output: 'a\n', exitCode: 0, isCut: false }),
    ])
    expect(turns[1]).toMatchObject({ phase: 'end', id, provider: 'codex', result: { text: 'Done.' } })
    expect(turns).toHaveLength(2)
  }

  it('behind a runtime tell it as any other, without the secrets of the client', async () => {
    await using server = await serveRuntime({ port: 0, provider: 'codex', harness: { binary, cwd: folder } })
    const client = await RuntimeClient.connect(server.url)
    onTestFinished(() => client.close().then(() => {}))
    const query = { systemPrompt: '', model: 'm-1' }
    await client.query('Nobody looks.', query)
    const turns = heard<TurnMessage>('sheepdog:turn')
    const tools = heard<ToolMessage>('sheepdog:tool')
    await client.query('List with hunter2-hunter2, please.', {
      ...query,
      secrets: ['hunter2-hunter2'],
    })
    await vi.waitFor(() => expect(turns).toHaveLength(2), { timeout: 30_000 })
    toldOf(turns, tools)
    expect(turns[0]).toMatchObject({ phase: 'start', provider: 'codex', model: 'm-1', cwd: folder })
    expect((turns[0] as { prompt: string }).prompt).toBe('List with [REDACTED], please.')
  })

  it('behind a runtime tell that they failed, and nobody who looks holds them up', async () => {
    const plan = [session, tool, failed('401 Unauthorized'), { exit: 1 }]
    const harness = { binary: ['node', player, JSON.stringify(plan)], cwd: folder }
    await using server = await serveRuntime({ port: 0, provider: 'codex', harness })
    const client = await RuntimeClient.connect(server.url)
    onTestFinished(() => client.close().then(() => {}))
    const turns = heard<TurnMessage>('sheepdog:turn')
    const tools = heard<ToolMessage>('sheepdog:tool')
    await expect(client.query('hi', { systemPrompt: '', model: 'm' })).rejects.toThrow()
    await vi.waitFor(() => expect(turns).toHaveLength(2), { timeout: 30_000 })
    expect(turns[1]).toMatchObject({ phase: 'end', error: { code: 'AGENT_FAILED', kind: 'auth' } })
    expect(tools[1]).toMatchObject({ phase: 'end', isCut: true })
  })

  it('of a kept session tell it as any other, without the secrets of the client', async () => {
    const agent = join(__dirname, '../fixtures/acp/agent.mjs')
    const harness = { binary: ['node', agent], cwd: folder }
    await using server = await serveRuntime({ port: 0, provider: 'gemini', harness, keepSession: true })
    const client = await RuntimeClient.connect(server.url)
    onTestFinished(() => client.close().then(() => {}))
    const turns = heard<TurnMessage>('sheepdog:turn')
    const tools = heard<ToolMessage>('sheepdog:tool')
    const query = { systemPrompt: '', model: '', secrets: ['hunter2-hunter2'] }
    await client.query('tool', query)
    await client.query('echo hunter2-hunter2', query)
    await vi.waitFor(() => expect(turns).toHaveLength(4), { timeout: 30_000 })
    expect(turns.map(({ phase }) => phase)).toEqual(['start', 'end', 'start', 'end'])
    expect(turns[0]).toMatchObject({ provider: 'gemini', prompt: 'tool', cwd: folder, resume: 'session-1' })
    expect(turns[1]).toMatchObject({ id: turns[0]!.id, result: { text: 'It says hi.', toolCalls: 1 } })
    expect(tools).toEqual([
      expect.objectContaining({ phase: 'start', turn: turns[0]!.id, name: 'Bash' }),
      expect.objectContaining({ phase: 'end', turn: turns[0]!.id, output: 'hi\n', isCut: false }),
    ])
    expect(turns[2]).toMatchObject({ prompt: 'echo [REDACTED]' })
    expect(turns[3]).toMatchObject({ result: { text: 'echo [REDACTED]' } })
  })

  it('of a kept session that could not be opened tell why', async () => {
    const harness = { binary: ['node', '-e', 'process.exit(3)'], cwd: folder }
    await using server = await serveRuntime({ port: 0, provider: 'gemini', harness, keepSession: true })
    const client = await RuntimeClient.connect(server.url)
    onTestFinished(() => client.close().then(() => {}))
    const turns = heard<TurnMessage>('sheepdog:turn')
    await expect(client.query('hi', { systemPrompt: '', model: '' })).rejects.toThrow()
    await vi.waitFor(() => expect(turns).toHaveLength(2), { timeout: 30_000 })
    expect(turns[1]).toMatchObject({ phase: 'end', error: { code: 'AGENT_CRASHED' } })
  })

  it.runIf(hasServer)("of a fleet's worker tell it as any other", async () => {
    await using fleet = await Fleet.connect({ dir: newFolder(), leaseMs: 3000 })
    const worker = await fleet.work({ queues: ['seen'], harness: { provider: 'codex', binary } })
    const turns = heard<TurnMessage>('sheepdog:turn')
    const tools = heard<ToolMessage>('sheepdog:tool')
    const cwd = newFolder()
    const job = await fleet.submit({ provider: 'codex', prompt: 'List, please.', queue: 'seen', cwd })
    await job.result
    await vi.waitFor(() => expect(turns).toHaveLength(2), { timeout: 30_000 })
    toldOf(turns, tools)
    expect(turns[0]).toMatchObject({ phase: 'start', prompt: 'List, please.', cwd })
    await worker.close()
  })
})
