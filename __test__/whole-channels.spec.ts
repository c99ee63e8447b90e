// Nothing is lost, told twice or out of order, on each way by which things come to a user: all is numbered, and counted.
// The sizes end just before, at and just behind the limits of what is taken together (named below), and cross them several times.
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import diagnostics from 'node:diagnostics_channel'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { Fleet } from '../entries/fleet.js'
import { Harness, replayFile, run, spawn, type AgentEvent, type ProviderName, type RunningProcess } from '..'
import { RuntimeClient, serveRuntime } from '../entries/runtime.js'
import { complete } from '../entries/model.js'
import { scripted } from './copilot/peer'
import { hasServer, newFolder, newQueue } from './fleet-worker'
import { command, done, folder, said, session as threadOfCodex } from './played-agent'
import { modelServer } from './scripted-model'
import { stdoutOf } from './recorded-stream'

/** Just before a limit, at it, just behind it, and past it a second time. */
const around = (limit: number) => [limit - 1, limit, limit + 1, 2 * limit + 1]
const numbers = (count: number) => Array.from({ length: count }, (_, number) => number)

/** Something to compare that tells where a sequence breaks first, not all of it. */
function firstBreak(seen: number[], count: number): string | undefined {
  const at = seen.findIndex((number, index) => number !== index)
  if (at >= 0) return `at ${at} came ${seen[at]}`
  return seen.length === count ? undefined : `${seen.length} of ${count} came`
}

const paces = { fast: 0, slow: 1 }
type Pace = keyof typeof paces
/** A reader that is slow lets the loop turn now and then, so that what comes piles up behind it. */
async function read<T>(items: AsyncIterable<T>, pace: Pace, every = 500): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) {
    all.push(item)
    if (pace === 'slow' && all.length % every === 0) {
      for (let turns = 0; turns < 3; turns++) await turnOfTheLoop()
    }
  }
  return all
}

describe('the output of a program', () => {
  // READ_BYTES, FLUSH_BYTES, a reader's window, a channel's window, what saveOutput() writes at once.
  const limits = [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20]
  const sizes = [0, 1, ...limits.flatMap(around)]
  const file = (size: number) => join(folder, `numbered-${size}`)

  /** Numbered JSON objects, of two types by turns, a line each; the last line may be torn anywhere. */
  function numbered(size: number): string {
    const count = Math.ceil(size / 40)
    const lines = numbers(count).map((n) => {
      const line = `{"type":"${n % 2 ? 'odd' : 'even'}","n":${n}`
      return `${line}${' '.repeat(Math.max(0, 38 - line.length))}}\n`
    })
    return lines.join('').slice(0, size)
  }
  const texts = new Map(sizes.map((size) => [size, numbered(size)]))
  beforeAll(() => texts.forEach((text, size) => writeFileSync(file(size), text)))

  const linesOf = (text: string) => (text.endsWith('\n') ? text.slice(0, -1) : text).split('\n')
  const whole = (text: string) => (text === '' ? [] : linesOf(text))
  function objects(text: string): { type: string; n: number }[] {
    return whole(text).flatMap((line) => (line.endsWith('}') ? [JSON.parse(line)] : []))
  }
  const digest = (...parts: Uint8Array[]) => {
    const hash = createHash('sha256')
    parts.forEach((part) => hash.update(part))
    return hash.digest('hex')
  }
  const same = (left: unknown[], right: unknown[]) =>
    expect(digest(Buffer.from(JSON.stringify(left)))).toBe(digest(Buffer.from(JSON.stringify(right))))

  const ways: Record<string, (running: RunningProcess, text: string, pace: Pace) => Promise<void>> = {
    'lines()': async (running, text, pace) => {
      const lines = await read(running.lines(), pace)
      same(
        lines.map((line) => line.text),
        whole(text),
      )
    },
    'lineBatches()': async (running, text, pace) => {
      const batches = await read(running.lineBatches(), pace, 1)
      same(
        batches.flatMap((batch) => batch.lines),
        whole(text),
      )
    },
    'json()': async (running, text, pace) => same(await read(running.json(), pace), objects(text)),
    'json({ types })': async (running, text, pace) =>
      same(
        await read(running.json({ types: ['odd'] }), pace),
        objects(text).filter(({ type }) => type === 'odd'),
      ),
    'bytes()': async (running, text, pace) =>
      expect(digest(...(await read(running.bytes(), pace, 1)))).toBe(digest(Buffer.from(text))),
    stdout: async (running, text, pace) =>
      expect(digest(...(await read(running.stdout, pace, 1)))).toBe(digest(Buffer.from(text))),
    stdoutNode: async (running, text, pace) =>
      expect(digest(...(await read(running.stdoutNode, pace, 1)))).toBe(digest(Buffer.from(text))),
    'saveOutput()': async (running, text) => {
      const saved = join(folder, `saved-${running.pid}-${text.length}`)
      const { stdoutBytes } = await running.saveOutput({ stdout: saved })
      expect(stdoutBytes).toBe(text.length)
      expect(digest(readFileSync(saved))).toBe(digest(Buffer.from(text)))
    },
  }

  for (const [way, check] of Object.entries(ways)) {
    for (const pace of Object.keys(paces) as Pace[]) {
      if (way === 'saveOutput()' && pace === 'slow') continue
      it(`${way}, ${pace}`, async () => {
        for (const [size, text] of texts) {
          const running = spawn('cat', [file(size)])
          await check(running, text, pace)
          const { stdoutBytes, stdout } = await running.result
          expect([stdoutBytes, stdout.length]).toEqual([size, size])
        }
      })
    }
  }
})

describe('the events of a turn', () => {
  const answer = 'The fake model says hello.'
  /** What holds a piece of the answer, for those that tell it in pieces; the others tell it whole, again and again. */
  const pieceKeys: Partial<Record<ProviderName, string>> = {
    copilot: 'deltaContent',
    gemini: 'content',
    pi: 'delta',
  }

  /** What a provider's CLI prints for a plain answer, with the line of the answer, or of a piece of it, so many times over. */
  function flood(provider: ProviderName, count: number): string {
    const key = pieceKeys[provider]
    const whole = key ? numbers(count).map((n) => `${n} `) : []
    const text = key ? `"${key}":"The fake mode"` : `"${answer}"`
    const numbered = (n: number) => (key ? `"${key}":"${n} "` : `"${n}"`)
    const lines = stdoutOf(provider, 'plain').split('\n')
    return lines
      .filter((line) => !line.includes(`"${key}":"l says hello."`))
      .flatMap((line) => {
        if (line.includes(text) && !line.includes('"type":"result"'))
          return numbers(count).map((n) => line.replace(text, numbered(n)))
        return [line.replaceAll(`"${answer}"`, `"${whole.join('')}"`)]
      })
      .join('\n')
  }
  const providers: ProviderName[] = [
    'claude-code',
    'codex',
    'copilot',
    'gemini',
    'kimi',
    'opencode',
    'pi',
    'qwen',
  ]
  const numbersOf = (events: AgentEvent[]) =>
    events.flatMap((event) => (event.type === 'text' ? [Number(event.text)] : []))

  describe.each(providers)('%s', (provider) => {
    it.each(Object.keys(paces) as Pace[])('%s, in order, and its text too', async (pace) => {
      const count = 4000
      const file = join(folder, `${provider}-${pace}.jsonl`)
      writeFileSync(file, flood(provider, count))
      const harness = new Harness({
        provider,
        binary: ['sh', '-c', `cat ${file}`],
        cwd: folder,
        permission: 'auto',
      })
      const turn = harness.start('Count.')
      const events = await read(turn, pace)
      expect(firstBreak(numbersOf(events), count)).toBeUndefined()
      const { ok, events: again } = await replayFile(provider, file, { exitCode: 0 })
      expect(ok).toBe(true)
      expect(firstBreak(numbersOf(again), count)).toBeUndefined()
      const { text } = await turn.result
      if (pieceKeys[provider]) expect(firstBreak(text.trim().split(' ').map(Number), count)).toBeUndefined()
    })
  })

  // MAX_KEPT of a turn that nobody listens to yet: `session`, the pieces, `usage`, `end`.
  it.each([990, 997])('are kept for who comes after %i of them, when all is over', async (count) => {
    const file = join(folder, `late-${count}.jsonl`)
    const lines = [threadOfCodex, ...numbers(count).map((n) => said(`${n}`)), done]
    writeFileSync(file, lines.map(({ line }) => `${JSON.stringify(line)}\n`).join(''))
    const turn = new Harness({ provider: 'codex', binary: ['sh', '-c', `cat ${file}`], cwd: folder }).start(
      'x',
    )
    await turn.result
    expect(firstBreak(numbersOf(await read(turn, 'fast')), count)).toBeUndefined()
  })

  it('and its record, replayed, and its tools on their channel', async () => {
    const count = 1001
    const tools = numbers(count).flatMap((n) => {
      const item = { ...command, id: `c${n}`, command: `echo ${n}` }
      const ended = { ...item, status: 'completed', exit_code: 0, aggregated_output: `${n}` }
      return [{ line: { type: 'item.started', item } }, { line: { type: 'item.completed', item: ended } }]
    })
    const file = join(folder, 'tools.jsonl')
    const lines = [threadOfCodex, ...tools, said('Done.'), done]
    writeFileSync(file, lines.map(({ line }) => `${JSON.stringify(line)}\n`).join(''))
    const outputs: number[] = []
    const listener = (message: any) => void (message.phase === 'end' && outputs.push(Number(message.output)))
    diagnostics.subscribe('sheepdog:tool', listener)
    onTestFinished(() => void diagnostics.unsubscribe('sheepdog:tool', listener))
    const harness = new Harness({ provider: 'codex', binary: ['sh', '-c', `cat ${file}`], cwd: folder })
    const records = join(folder, 'records')
    const turn = harness.start('x', { record: records })
    const seen = (await read(turn, 'slow')).flatMap((event) =>
      event.type === 'tool_end' ? [Number(event.output)] : [],
    )
    const { record } = (await turn.result) as { record?: { folder: string } }
    expect(firstBreak(seen, count)).toBeUndefined()
    expect(firstBreak(outputs, count)).toBeUndefined()
    const kept = readFileSync(join(record!.folder, 'events.jsonl'), 'utf8').trim().split('\n')
    const recorded = kept.map((line) => JSON.parse(line).event).filter((event) => event?.type === 'tool_end')
    expect(
      firstBreak(
        recorded.map(({ output }) => Number(output)),
        count,
      ),
    ).toBeUndefined()
    expect(readFileSync(join(record!.folder, 'attempts/1/stdout'))).toEqual(readFileSync(file))
  })
})

describe('a session', () => {
  const agent = join(__dirname, '..', 'fixtures', 'acp', 'agent.mjs')
  const open = (version: 1 | 2) =>
    new Harness({ provider: 'gemini' }).open({
      binary: ['node', agent, '--version', `${version}`],
      cwd: folder,
    })
  const pieces = (events: { type: string; text?: string }[]) =>
    events.flatMap((event) => (event.type === 'text' ? event.text!.trim().split(' ').map(Number) : []))
  // TOGETHER and MAX_WAITING of crates/agents/src/acp, and many of them.
  const counts = [...around(256), ...around(512), 5000]

  it.each([1, 2] as const)('of version %i tells all who listen, at their own pace', async (version) => {
    await using session = await open(version)
    const until = async (events: AsyncIterable<any>, pace: Pace) => {
      const all: any[] = []
      for await (const event of events) {
        all.push(event)
        if (pace === 'slow' && all.length % 100 === 0) await turnOfTheLoop()
        if (event.type === 'turn_end') break
      }
      return all
    }
    for (const count of counts) {
      const [first, second] = [until(session.events(), 'fast'), until(session.events(), 'slow')]
      const turn = session.start(`count ${count}`)
      const own = await read(turn, 'slow', 100)
      const { text } = await turn.result
      expect(firstBreak(text.trim().split(' ').map(Number), count)).toBeUndefined()
      expect(firstBreak(pieces(own), count)).toBeUndefined()
      expect(firstBreak(pieces(await first), count)).toBeUndefined()
      expect(firstBreak(pieces(await second), count)).toBeUndefined()
    }
  })

  it('that is kept behind a runtime tells its client', async () => {
    const harness = { binary: ['node', agent], cwd: folder }
    await using server = await serveRuntime({ port: 0, provider: 'gemini', harness, keepSession: true })
    await using client = await RuntimeClient.connect(server.url)
    for (const count of counts) {
      const told: string[] = []
      const onAssistantMessage = (blocks: string[]) => void told.push(...blocks)
      const query = { systemPrompt: '', model: '', onAssistantMessage }
      const { data } = (await client.query(`count ${count}`, query)) as any
      expect(firstBreak(told.join('').trim().split(' ').map(Number), count)).toBeUndefined()
      expect(firstBreak(data.text.trim().split(' ').map(Number), count)).toBeUndefined()
    }
  })
})

it('a handler of a runtime is heard by its client', async () => {
  // Past what a socket holds unacknowledged, and what one call of the client takes.
  const pad = 'x'.repeat(2000)
  const run = async ({ userPrompt }: { userPrompt: string }, sender: any) => {
    for (const n of numbers(Number(userPrompt))) await sender.sendAssistantMessage([`${n}`, pad])
    return { type: 'text' as const, text: userPrompt }
  }
  await using server = await serveRuntime({ handler: { run } as never, port: 0 })
  await using client = await RuntimeClient.connect(server.url)
  for (const count of [1, ...around(256), 2500]) {
    const told: number[] = []
    const onAssistantMessage = ([number]: string[]) => void told.push(Number(number))
    await client.query(`${count}`, { systemPrompt: '', model: '', onAssistantMessage })
    expect(firstBreak(told, count)).toBeUndefined()
  }
})

it.each(around(256).concat(20_000))('a copilot session tells %i events, to two who listen', async (count) => {
  const { client } = scripted(['--play', 'flood', '--count', `${count}`])
  const session = await client.createSession()
  const [one, two]: [number[], number[]] = [[], []]
  session.on('assistant.message_delta', ({ data }) => void one.push((data as any).index))
  session.on(
    (event) => void (event.type === 'assistant.message_delta' && two.push((event.data as any).index)),
  )
  await session.sendAndWait('go', 60_000)
  expect(firstBreak(one, count)).toBeUndefined()
  expect(firstBreak(two, count)).toBeUndefined()
})

it.each([1, 255, 256, 257, 5000])('a model tells %i pieces by onText', async (count) => {
  const base = modelServer().urlFor(`every;;drip=${count},0`)
  const told: string[] = []
  const { text } = await complete({
    baseUrl: `${base}/v1`,
    model: 'm',
    messages: [{ role: 'user', content: 'hi' }],
    onText: (piece) => void told.push(piece),
  })
  expect(told.join('')).toBe(text)
  const drops = text
    .trim()
    .split(' ')
    .filter((word) => word !== 'drop')
  expect(
    firstBreak(
      drops.map((word) => Number(word) - 1),
      count,
    ),
  ).toBeUndefined()
})

describe.runIf(hasServer)('a job of a fleet', () => {
  let fleet: Fleet
  beforeAll(async () => {
    fleet = await Fleet.connect({ dir: newFolder() })
  })
  afterAll(() => fleet.close())

  it('has all its events, for two who follow, from the beginning and from any', async () => {
    // Past what is stored at once and what waits for it, and small ones among large ones.
    const count = 2001
    const queue = newQueue()
    const worker = await fleet.work({
      queues: [queue],
      handlers: {
        async count(job) {
          for (const n of numbers(count))
            await job.emit({ type: 'step', n, pad: 'x'.repeat(n % 7 === 0 ? 5000 : 10) })
        },
      },
    })
    const job = await fleet.submit({ handler: 'count', queue })
    const steps = async (pace: Pace, from?: string) =>
      (await read(job.events({ from }), pace, 100)).filter(({ type }) => type === 'step') as any[]
    const [live, slow] = await Promise.all([steps('fast'), steps('slow')])
    expect(
      firstBreak(
        live.map(({ n }) => n),
        count,
      ),
    ).toBeUndefined()
    expect(
      firstBreak(
        slow.map(({ n }) => n),
        count,
      ),
    ).toBeUndefined()
    expect(new Set(live.map(({ cursor }) => cursor)).size).toBe(count)
    // From each border of what was stored together, and around it.
    const batchOf = ({ cursor }: { cursor: string }) => cursor.slice(0, cursor.lastIndexOf('.'))
    const borders = numbers(count).filter((n) => n > 0 && batchOf(live[n]) !== batchOf(live[n - 1]))
    expect(borders.length).toBeGreaterThan(3)
    const from = [0, count - 2, count - 1, ...borders.slice(0, 3).flatMap((n) => [n - 1, n])]
    for (const n of from) {
      const rest = await steps('fast', live[n].cursor)
      expect(
        firstBreak(
          rest.map((step) => step.n - n - 1),
          count - n - 1,
        ),
      ).toBeUndefined()
    }
    await worker.close()
  })

  it('has its artifacts whole, at the border of a piece', async () => {
    const cwd = newFolder()
    mkdirSync(join(cwd, 'out'))
    const sizes = [0, 1, ...around(1 << 20), (8 << 20) + 1]
    for (const size of sizes) writeFileSync(join(cwd, 'out', `${size}`), Buffer.alloc(size, 'numbered 0123'))
    const queue = newQueue()
    const worker = await fleet.work({ queues: [queue], handlers: { nothing: async () => {} } })
    const job = await fleet.submit({ handler: 'nothing', queue, cwd, artifacts: ['out/*'] })
    await job.result
    expect((await job.artifacts()).length).toBe(sizes.length)
    for (const size of sizes) {
      const to = join(newFolder(), 'whole')
      await job.download(`out/${size}`, to)
      expect(readFileSync(to).equals(Buffer.alloc(size, 'numbered 0123'))).toBe(true)
    }
    await worker.close()
  })
})

it('a recorded run has on record what it printed', async () => {
  for (const size of [0, 1, ...around(64 << 10), ...around(1 << 20)]) {
    const text = 'numbered 0123\n'.repeat(Math.ceil(size / 14)).slice(0, size)
    const { record, stdout } = await run('cat', [], { input: text, record: join(folder, 'runs') })
    expect(stdout === text).toBe(true)
    expect(record!.leftOutBytes).toBe(0)
    // Of a stream that said nothing there is no file.
    const kept = size > 0 ? readFileSync(join(record!.folder, 'stdout'), 'utf8') : ''
    expect(kept === text).toBe(true)
  }
})

it('an answer longer than is kept is told to be cut, by turns and sessions alike', async () => {
  const [pieces, letters] = [170, 100_000]
  const file = join(folder, 'long.jsonl')
  const piece = { type: 'message', role: 'assistant', content: 'x'.repeat(letters), delta: true }
  const end = { type: 'result', status: 'success', stats: {} }
  const lines = [{ type: 'init', session_id: 's' }, ...Array(pieces).fill(piece), end]
  writeFileSync(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''))
  const agent = join(__dirname, '..', 'fixtures', 'acp', 'agent.mjs')
  await using session = await new Harness({ provider: 'gemini' }).open({
    binary: ['node', agent],
    cwd: folder,
  })
  const harness = new Harness({ provider: 'gemini', binary: ['sh', '-c', `cat ${file}`], cwd: folder })
  const message = 'the answer is longer than 16 MiB: the rest of it was left out'
  const starts = [() => harness.start('x'), () => session.start(`flood ${pieces} ${letters}`)]
  for (const start of starts) {
    const turn = start()
    const events = await read(turn, 'fast')
    const told = events.reduce((sum, event) => sum + (event.type === 'text' ? event.text.length : 0), 0)
    expect(told).toBe(pieces * letters)
    expect(events.filter(({ type }) => type === 'warning')).toEqual([{ type: 'warning', message }])
    const { text, warnings } = await turn.result
    expect([text.length, warnings]).toEqual([16 << 20, [message]])
  }
})
