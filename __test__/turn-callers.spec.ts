// Callers that read late, twice or never, abort at any moment, and change their options behind the call; and threads that end.
import { existsSync, mkdtempSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { describe, expect, it, vi } from 'vitest'
import { Harness, type AgentEvent, type HarnessOptions, type TurnOptions } from '..'
import {
  answer,
  counting,
  done,
  failed,
  failure,
  folder,
  played,
  player,
  said,
  session,
} from './played-agent'
import { repository } from './repository'

const kinds = (events: AgentEvent[]) => events.map(({ type }) => type)
async function all(turn: AsyncIterable<AgentEvent>): Promise<AgentEvent[]> {
  const events: AgentEvent[] = []
  for await (const event of turn) events.push(event)
  return events
}

describe('the events of a turn', () => {
  const whole = ['session', 'text', 'usage', 'end']

  it('are there for a reader that comes after the end, once', async () => {
    const turn = played(answer).start('hi')
    await turn.result
    expect(kinds(await all(turn))).toEqual(whole)
    expect(() => turn[Symbol.asyncIterator]()).toThrow(expect.objectContaining({ code: 'TURN_ITERATED' }))
  })

  it('come one for each call, in order, however they are asked for', async () => {
    const events = played(answer).start('hi')[Symbol.asyncIterator]()
    const many = await Promise.all(Array.from({ length: 7 }, () => events.next()))
    expect(many.map(({ done, value }) => (done ? 'done' : value.type))).toEqual([
      ...whole,
      'done',
      'done',
      'done',
    ])
    expect(await events.next()).toEqual({ done: true, value: undefined })
    expect(await events.return!()).toEqual({ done: true, value: undefined })
  })

  it('end a loop that was left, and the turn goes on', async () => {
    const turn = played([session, { wait: 200 }, said('Hello.'), done]).start('hi')
    const events = turn[Symbol.asyncIterator]()
    const waiting = [events.next(), events.next(), events.next()]
    await waiting[0]
    await events.return!()
    expect((await Promise.all(waiting)).map(({ done }) => done)).toEqual([false, true, true])
    expect((await turn.result).text).toBe('Hello.')
  })
})

describe('an abort', () => {
  const busy = [session, said('Part.'), failed('unexpected status 503 Service Unavailable'), { exit: 1 }]

  it('at any moment ends the turn, and a second one changes nothing', async () => {
    for (const when of [0, 1, 5, 20, 60, 120, 250]) {
      const turn = played([session, said('Part.'), { hang: true }]).start('hi')
      if (when > 0) await sleep(when)
      await Promise.all([turn.abort(), turn.abort()])
      const error = await failure(turn.result)
      expect(error.code).toBe('AGENT_ABORTED')
      await turn.abort()
      expect(existsSync(`/proc/${error.result.process?.pid}`)).toBe(false)
    }
  })

  it('by each event of a turn with a retry ends it there, or came too late', async () => {
    for (let at = 0; at < 7; at++) {
      const controller = new AbortController()
      const turn = played([counting(busy, answer)]).start('hi', {
        signal: controller.signal,
        retry: { baseDelayMs: 100 },
      })
      const seen: AgentEvent[] = []
      for await (const event of turn) {
        if (seen.length === at) controller.abort(new Error(`at ${at}`))
        seen.push(event)
      }
      const outcome = await turn.result.catch((error: unknown) => error as Error & { code: string })
      if (outcome instanceof Error) {
        expect([at, outcome.code, (outcome.cause as Error).message]).toEqual([
          at,
          'AGENT_ABORTED',
          `at ${at}`,
        ])
      } else expect(outcome.text).toBe('Hello.')
      expect(kinds(seen).filter((kind) => kind === 'end').length).toBeLessThanOrEqual(1)
      if (kinds(seen).includes('end')) expect(seen.at(-1)!.type).toBe('end')
    }
  })
})

describe('options that are changed after the call', () => {
  const env = (text: string) => JSON.parse(text) as Record<string, string>
  const binary = (plan: object[]) => ['node', player, JSON.stringify(plan)]

  it('change nothing of a turn that waits for its slot, with a checkout and without', async () => {
    const cwd = repository()
    for (const worktree of [false, true]) {
      const harness = new Harness({
        provider: 'codex',
        binary: binary([session, { tell: 'env' }, done]),
        cwd,
        maxConcurrent: 1,
      })
      const first = harness.run('hi')
      const options = {
        worktree,
        env: { KEPT: 'as it was' },
        redact: ['nothing'],
        extraArgs: ['--first'],
        retry: { attempts: 1 },
      } satisfies TurnOptions
      const second = harness.run('hi', options)
      options.env.KEPT = 'changed'
      options.redact.push('as it was')
      options.extraArgs.push('--second')
      options.retry.attempts = 7
      await first
      const { text, process } = await second
      expect([worktree, env(text).KEPT]).toEqual([worktree, 'as it was'])
      expect(process!.args).toContain('--first')
      expect(process!.args).not.toContain('--second')
    }
  })

  it('change nothing of a harness', async () => {
    const options = {
      provider: 'codex',
      binary: binary([session, { tell: 'env' }, done]),
      cwd: folder,
      env: { KEPT: 'as it was' },
      extraArgs: ['--first'],
      retry: { attempts: 1 },
    } satisfies HarnessOptions
    const harness = new Harness(options)
    options.env.KEPT = 'changed'
    options.binary.splice(0, 3, 'false')
    options.extraArgs.push('--second')
    options.retry.attempts = 'many' as unknown as number
    const { text, process } = await harness.run('hi')
    expect(env(text).KEPT).toBe('as it was')
    expect(process!.args).not.toContain('--second')
  })
})

/** Whether a process has its temporary folder below this. */
const livesIn = (place: string) =>
  readdirSync('/proc').some((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`TMPDIR=${place}`)
    } catch {
      return false
    }
  })

const limited = failed(`You've hit your usage limit. {"resets_at":${Math.ceil(Date.now() / 1000) + 3600}}`)
const hang = [session, said('There.'), { hang: true }]
const deaf = ['sh', '-c', 'trap "" TERM; exec node "$@"', 'sh', player, JSON.stringify(hang)]
const agent = join(__dirname, '..', 'fixtures', 'acp', 'agent.mjs')
/** The state, and how a thread brings a turn or a session into it. It says "there" itself, or with the first text. */
const states: Record<string, string> = {
  'that has just begun': `harness(${JSON.stringify(hang)}).start('hi'); there()`,
  'at work': `turn(harness(${JSON.stringify(hang)}).start('hi'), 'text')`,
  'at work, deaf to SIGTERM': `turn(new Harness({ ...common, binary: ${JSON.stringify(deaf)} }).start('hi'), 'text')`,
  'in the queue': `const one = harness(${JSON.stringify(hang)}, { maxConcurrent: 1 }); turn(one.start('hi'), 'text'); one.start('hi')`,
  'in the pause before a retry': `turn(harness(${JSON.stringify([session, failed('503'), { exit: 1 }])}).start('hi', { retry: { baseDelayMs: 1e6, maxDelayMs: 1e6 } }), 'retry')`,
  'that waits for a limit': `turn(harness(${JSON.stringify([session, limited, { exit: 1 }])}).start('hi', { retry: { waitForResetMs: 1e8 } }), 'retry')`,
  'in the setup of its checkout': `harness(${JSON.stringify(hang)}, { cwd: repository }).start('hi', { worktree: { setup: ['sh', '-c', 'sleep 600']} }); setTimeout(there, 1500)`,
  'of a session': `session('').then((chat) => turn(chat.start('stall'), 'text'))`,
  'of a session that is deaf': `session('').then((chat) => turn(chat.start('deaf'), 'text'))`,
  'of a session that opens': `session('silent').catch(() => {}); setTimeout(there, 500)`,
}

describe.skipIf(process.platform !== 'linux')('the end of a thread ends a turn', () => {
  it.concurrent.each(Object.entries(states))('%s', { timeout: 60_000 }, async (_, body) => {
    const place = mkdtempSync(join(folder, 'thread-'))
    const cwd = repository()
    const script = `
      const { Harness } = require(${JSON.stringify(join(__dirname, '..'))})
      const { parentPort } = require('node:worker_threads')
      const [place, repository] = ${JSON.stringify([place, cwd])}
      const there = () => parentPort.postMessage('there')
      const common = { provider: 'codex', cwd: place, env: { TMPDIR: place } }
      const harness = (plan, more) => new Harness({ ...common, binary: ['node', ${JSON.stringify(player)}, JSON.stringify(plan)], ...more })
      const session = (start) => new Harness({ ...common, provider: 'gemini', binary: ['node', ${JSON.stringify(agent)}, '--version', '1', '--start', start] }).open({ binary: ['node', ${JSON.stringify(agent)}, '--version', '1', '--start', start] })
      const turn = async (turn, type) => { for await (const event of turn) if (event.type === type) there() }
      ${body}`
    const worker = new Worker(script, { eval: true })
    await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject))
    await worker.terminate()
    await vi.waitUntil(() => !livesIn(place), { timeout: 20_000 })
    await vi.waitUntil(() => readdirSync(place).length === 0, { timeout: 20_000 })
  })
})
