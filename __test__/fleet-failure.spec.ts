// What a fleet does when its parts are killed, frozen or away.
import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { once } from 'node:events'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { Fleet } from '../entries/fleet.js'
import { processesWith } from '../fixtures/agent-cases.mjs'
import { firstEvent, hasExited, hasServer, newFolder, newQueue, workerProcess } from './fleet-worker'
import { answer, done, failure, player, session, tool } from './played-agent'

describe.runIf(hasServer)('a fleet whose parts fail', () => {
  const dir = hasServer ? newFolder() : ''
  const leaseMs = 2000
  let fleet: Fleet
  beforeAll(async () => {
    fleet = await Fleet.connect({ dir, leaseMs })
  })
  afterAll(() => fleet.close())

  it('gives the job of a killed worker to another one within the lease', async () => {
    const queue = newQueue()
    const first = await workerProcess({ dir }, { queues: [queue], name: 'first' })
    const job = await fleet.submit({ handler: 'firstSlow', queue, data: { ms: 60_000 } })
    expect((await firstEvent(fleet, job.id, 'began')).pid).toBe(first.pid)
    const second = await workerProcess({ dir }, { queues: [queue], name: 'second' })
    first.kill('SIGKILL')
    const begun = performance.now()
    expect(await job.result).toEqual({ pid: second.pid, attempt: 2 })
    expect(performance.now() - begun).toBeLessThan(leaseMs + 3000)
    const attempts: number[] = []
    for await (const event of job.events()) attempts.push(event.attempt)
    expect(attempts).toEqual([1, 2])
    expect(await job.record()).toMatchObject({ state: 'done', attempt: 2, worker: 'second' })
    second.kill('SIGKILL')
  })

  it('refuses what a frozen worker commits when it wakes up', async () => {
    const queue = newQueue()
    const first = await workerProcess({ dir }, { queues: [queue], name: 'frozen' })
    const job = await fleet.submit({ handler: 'firstSlow', queue, data: { ms: 1500 } })
    await firstEvent(fleet, job.id, 'began')
    first.kill('SIGSTOP')
    const second = await workerProcess({ dir }, { queues: [queue], name: 'awake' })
    expect(await job.result).toEqual({ pid: second.pid, attempt: 2 })
    first.kill('SIGCONT')
    // Its handler ends now, and what it says must not count: its next job proves that it is awake and well.
    second.kill('SIGTERM')
    await once(second, 'exit')
    const next = await fleet.submit({ handler: 'slow', queue, data: { ms: 1 } })
    expect(await next.result).toMatchObject({ pid: first.pid })
    expect(await job.record()).toMatchObject({ state: 'done', attempt: 2, worker: 'awake' })
    first.kill('SIGKILL')
  })

  it.runIf(process.platform === 'linux')(
    'leaves nothing of the tree of an agent whose frozen worker wakes up',
    async () => {
      const [queue, mark, go] = [newQueue(), randomUUID(), join(newFolder(), 'go')]
      const line = (value: object) => `echo '${JSON.stringify(value)}'; `
      const item = { id: 'm', type: 'agent_message', text: 'Done.' }
      // The first attempt ends while its worker is frozen, and leaves a process behind.
      const first = `if [ "$SHEEPDOG_ATTEMPT" = 1 ]; then (sleep 1000 &); while [ ! -e ${go} ]; do sleep 0.1; done; fi; `
      const script = `${line(session.line)}${first}${line({ type: 'item.completed', item })}${line(done.line)}`
      const harness = { provider: 'codex', binary: ['sh', '-c', script], env: { MARK: mark } } as const
      const frozen = await workerProcess({ dir }, { queues: [queue], name: 'frozen', harness })
      const job = await fleet.submit({ provider: 'codex', prompt: 'x', queue, cwd: newFolder() })
      await firstEvent(fleet, job.id, 'session')
      frozen.kill('SIGSTOP')
      writeFileSync(go, '')
      const awake = await workerProcess({ dir }, { queues: [queue], name: 'awake', harness })
      expect(await job.result).toMatchObject({ text: 'Done.' })
      const record = await job.record()
      expect(record).toMatchObject({ attempt: 2, worker: 'awake' })
      expect(processesWith(mark)).not.toEqual([])
      for (const signal of ['SIGCONT', 'SIGTERM'] as const) frozen.kill(signal)
      awake.kill('SIGTERM')
      await Promise.all([frozen, awake].map(hasExited))
      expect(await job.record()).toEqual(record)
      expect(processesWith(mark)).toEqual([])
    },
  )

  it('beats while the JavaScript thread is blocked for longer than the lease', async () => {
    const queue = newQueue()
    let runs = 0
    const block = () => {
      runs++
      // The thread stands still without using the processor.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, leaseMs * 2)
      return 'done'
    }
    const worker = await fleet.work({ queues: [queue], handlers: { block } })
    const other = await workerProcess({ dir }, { queues: [queue] })
    const job = await fleet.submit({ handler: 'block', queue })
    expect(await job.result).toBe('done')
    expect(await job.record()).toMatchObject({ attempt: 1 })
    expect(runs).toBe(1)
    other.kill('SIGKILL')
    await worker.close()
  })

  it('buries a job that kills its workers, and says what the last one ended of', async () => {
    const queue = newQueue()
    const job = await fleet.submit({ handler: 'poison', queue, attempts: 2 })
    for (const _ of [1, 2]) {
      // It has each of them for itself.
      const worker = await workerProcess({ dir }, { queues: [queue], concurrency: 1 })
      await hasExited(worker)
    }
    const witness = await workerProcess({ dir }, { queues: [queue] })
    const error = await failure(job.result)
    expect(error).toMatchObject({ code: 'JOB_DEAD', lastError: { code: 'JOB_LEASE_LOST' } })
    expect(await job.record()).toMatchObject({ state: 'dead', attempt: 2 })
    witness.kill('SIGKILL')
  })

  it('runs a job alone that may have killed its workers, so that its neighbours live', async () => {
    const queue = newQueue()
    const slow = { handler: 'slow', data: { ms: 300 }, queue, attempts: 2 } as const
    const neighbours = await Promise.all(Array.from({ length: 6 }, () => fleet.submit(slow)))
    const poison = await fleet.submit({ handler: 'poison', queue, attempts: 2 })
    const all = Promise.allSettled([poison.result, ...neighbours.map(({ result }) => result)])
    let isOver = false
    void all.then(() => (isOver = true))
    while (!isOver) {
      const worker = await workerProcess({ dir }, { queues: [queue], concurrency: 7 })
      await Promise.race([hasExited(worker), all])
      worker.kill('SIGKILL')
    }
    expect(await failure(poison.result)).toMatchObject({ code: 'JOB_DEAD' })
    for (const { result } of neighbours) expect(await result).toMatchObject({ attempt: expect.any(Number) })
    // Two of its runs were beside others, and cost nothing.
    expect(await poison.record()).toMatchObject({ state: 'dead', attempt: 4, spent: 2 })
  })

  it('tries a job again at once, however soon after its end it is asked to', async () => {
    // A lease is longer than this test may take: whatever has to wait for one fails it.
    const own = await Fleet.connect({ dir: newFolder(), leaseMs: 300_000 })
    const worker = await own.work({
      handlers: {
        bad(job) {
          throw new Error(`attempt ${job.attempt}`)
        },
      },
    })
    const job = await own.submit({ handler: 'bad', attempts: 1 })
    for (let attempt = 1; attempt <= 40; attempt++) {
      expect(await failure(job.result)).toMatchObject({ message: `attempt ${attempt}` })
      await job.retry()
    }
    await failure(job.result)
    await worker.close()
    await own.close()
  })

  it('goes on when the server is killed: runs, logs and results', async () => {
    const queue = newQueue()
    const worker = await workerProcess({ dir }, { queues: [queue] })
    const jobs = await Promise.all(
      Array.from({ length: 8 }, () =>
        fleet.submit({ handler: 'chatter', queue, data: { events: 40, ms: 120 } }),
      ),
    )
    // In the middle of the runs, however fast they go.
    const moments = [4, 16, 28]
    let killed: number | undefined
    for await (const { n } of jobs[0]!.events() as AsyncIterable<any>) {
      if (n !== moments[0]) continue
      // Events that were on their way may come before the next server is up.
      killed = await vi.waitFor(
        () => {
          const { pid } = JSON.parse(readFileSync(join(dir, 'fleet.json'), 'utf8'))
          expect(pid).not.toBe(killed)
          return pid as number
        },
        { timeout: 30_000, interval: 20 },
      )
      process.kill(killed!, 'SIGKILL')
      moments.shift()
    }
    expect(moments).toEqual([])
    for (const job of jobs) {
      const attempt = await job.result
      const said: number[] = []
      for await (const event of job.events())
        if (event.attempt === Number(attempt)) said.push((event as any).n)
      expect(said).toEqual(Array.from({ length: 40 }, (_, n) => n))
    }
    worker.kill('SIGKILL')
  })

  it('ends its server with its host, and goes on at the next start', async () => {
    const own = newFolder()
    const first = await Fleet.connect({ dir: own })
    const job = await first.submit({ handler: 'echo', data: 7 })
    await first.close()
    const { pid } = JSON.parse(readFileSync(join(own, 'fleet.json'), 'utf8'))
    expect(existsSync(`/proc/${pid}`)).toBe(false)
    const second = await Fleet.connect({ dir: own })
    const worker = await second.work({ handlers: { echo: (given) => given.data } })
    expect(await (await second.job(job.id)).result).toBe(7)
    await worker.close()
    await second.close()
  })

  it('is carried on by a process that remains when the owner of its server is killed', async () => {
    const own = newFolder()
    const owner = await workerProcess({ dir: own, leaseMs })
    const rest = await Fleet.connect({ dir: own })
    const job = await rest.submit({ handler: 'firstSlow', data: { ms: 60_000 } })
    await firstEvent(rest, job.id, 'began')
    owner.kill('SIGKILL')
    const worker = await rest.work({ handlers: { firstSlow: (given) => given.attempt } })
    expect(await job.result).toBe(2)
    await worker.close()
    await rest.close()
  })

  it('runs a turn of an agent: events, session, result, and its id in the environment', async () => {
    const queue = newQueue()
    const worker = await fleet.work({
      queues: [queue],
      harness: { provider: 'codex', binary: ['node', player, JSON.stringify(answer)] },
    })
    const job = await fleet.submit({ provider: 'codex', prompt: 'Say hello.', queue, cwd: newFolder() })
    const types: string[] = []
    for await (const event of job.events()) types.push(event.type)
    expect(types).toEqual(['session', 'text', 'usage', 'end'])
    expect(await job.result).toMatchObject({ text: 'Hello.', sessionId: 't-1', provider: 'codex' })
    expect(await job.record()).toMatchObject({ state: 'done', sessionId: 't-1' })
    await worker.close()
  })

  it('holds a budget over all attempts, and tells what lost ones used', async () => {
    const queue = newQueue()
    const plan = (...steps: object[]) => JSON.stringify([{ line: { type: 'session', id: 'pi-1' } }, ...steps])
    const used = (input: number, output: number) => ({
      line: {
        type: 'message_end',
        message: {
          role: 'assistant',
          content: [{ type: 'text', text: 'So far.' }],
          stopReason: 'stop',
          usage: { input, output, cacheRead: 0, cacheWrite: 0, cost: { total: 0 } },
        },
      },
    })
    const pi = (text: string) => ({
      provider: 'pi' as const,
      permission: 'auto' as const,
      binary: ['node', player, text],
    })
    const work = { queues: [queue], harness: pi(plan(used(400, 100), { wait: 60_000 })) }
    const first = await workerProcess({ dir }, work)
    const job = await fleet.submit({ provider: 'pi', prompt: 'Go on.', queue, maxTokens: 1000, attempts: 2 })
    await vi.waitFor(
      async () => expect((await job.record()).usage).toMatchObject({ inputTokens: 400, outputTokens: 100 }),
      { timeout: 30_000 },
    )
    first.kill('SIGKILL')
    const second = await fleet.work({
      queues: [queue],
      harness: pi(plan(used(500, 101), { line: { type: 'agent_end', messages: [] } })),
    })
    // Each attempt for itself used less than 1,000.
    expect(await failure(job.result)).toMatchObject({ code: 'AGENT_BUDGET', cap: 'maxTokens' })
    expect(await job.record()).toMatchObject({ attempt: 2, usage: { inputTokens: 900, outputTokens: 201 } })
    // A retried job has a new budget.
    await job.retry()
    expect(await job.result).toMatchObject({ text: 'So far.' })
    expect((await job.record()).usage).toMatchObject({ inputTokens: 1400 })
    await second.close()
  })

  it('counts the last message of an agent that tells a sum at its end only, and whose worker was lost', async () => {
    const queue = newQueue()
    const id = '0b0f5b9c-7d8b-4c3e-9a53-0a6b7a9d1c11'
    const begin = { line: { type: 'system', subtype: 'init', session_id: id } }
    const message = {
      id: 'm1',
      role: 'assistant',
      content: [{ type: 'text', text: 'So far.' }],
      usage: { input_tokens: 400, output_tokens: 100 },
    }
    const steps = [begin, { line: { type: 'assistant', session_id: id, message } }, { wait: 60_000 }]
    const harness = { provider: 'claude-code', binary: ['node', player, JSON.stringify(steps)] } as const
    const worker = await workerProcess({ dir }, { queues: [queue], harness: harness as never })
    const job = await fleet.submit({ provider: 'claude-code', prompt: 'Go on.', queue, attempts: 1 })
    await vi.waitFor(
      async () => expect((await job.record()).usage).toMatchObject({ inputTokens: 400, outputTokens: 100 }),
      { timeout: 30_000 },
    )
    worker.kill('SIGKILL')
    expect((await job.record()).usage).toMatchObject({ inputTokens: 400, outputTokens: 100 })
  })

  it('resumes a turn whose worker was lost after a tool had run, and never runs it anew', async () => {
    const queue = newQueue()
    const hangs = JSON.stringify([session, tool, { hang: true }])
    const harness = { provider: 'codex', binary: ['node', player, hangs] } as const
    const first = await workerProcess({ dir }, { queues: [queue], harness: harness as never })
    const job = await fleet.submit({ provider: 'codex', prompt: 'Do it.', queue, cwd: newFolder() })
    await firstEvent(fleet, job.id, 'tool_start')
    first.kill('SIGKILL')
    const tells = JSON.stringify([session, { tell: 'args' }, { tell: 'stdin' }, done])
    const worker = await fleet.work({
      queues: [queue],
      harness: { provider: 'codex', binary: ['node', player, tells] },
    })
    const said: string[] = []
    for await (const event of job.events())
      if (event.type === 'text' && event.attempt === 2) said.push((event as { text: string }).text)
    expect(JSON.parse(said[0]!)).toEqual(expect.arrayContaining(['resume', 't-1']))
    expect(said.join()).toMatch(/was interrupted and goes on here.*Do it\./s)
    expect(await job.record()).toMatchObject({ state: 'done', attempt: 2, sessionId: 't-1' })
    await worker.close()
  })
})
