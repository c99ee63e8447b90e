// The harness beside what a user would write instead: node's own child_process, split, JSON.parse and a switch.
//   node bench/harness.mjs [PROVIDER ...]
// 200k events of each provider (111 MB) through a run that nobody iterates; then 100 agents at 100 lines/s each.
// Both ways take turns, five rounds, medians. Peak memory is that of a process of its own with one such run.
import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const { Harness } = createRequire(import.meta.url)('../index.js')
const EVENTS = 200_000
const BYTES = 555
const player = fileURLToPath(new URL('../fixtures/bin/agent.mjs', import.meta.url))

const uuid = '0644d6c0-4b51-4b72-ab58-96d88a8b3545'
const timestamp = '2026-11-21T20:37:37.797Z'

/** The end of turn of claude-code and qwen. */
const successful = {
  type: 'result',
  subtype: 'success',
  is_error: false,
  result: 'done',
  num_turns: 1,
  session_id: uuid,
  usage: { input_tokens: 1, output_tokens: 1 },
}

/** For each provider: its first lines, a line of work that holds `words`, its last lines. */
const streams = {
  'claude-code': (words) => [
    [{ type: 'system', subtype: 'init', session_id: uuid, model: 'm' }],
    {
      type: 'assistant',
      message: {
        id: 'msg_1',
        type: 'message',
        role: 'assistant',
        model: 'm',
        content: [{ type: 'text', text: words }],
        stop_reason: null,
        usage: { input_tokens: 1200, cache_read_input_tokens: 200, output_tokens: 1 },
      },
      parent_tool_use_id: null,
      session_id: uuid,
      uuid,
      timestamp,
    },
    [successful],
  ],
  codex: (words) => [
    [{ type: 'thread.started', thread_id: uuid }, { type: 'turn.started' }],
    {
      type: 'item.completed',
      item: {
        id: 'item_1',
        type: 'command_execution',
        command: "/bin/bash -lc 'npm test'",
        aggregated_output: words,
        exit_code: 0,
        status: 'completed',
      },
    },
    [
      { type: 'item.completed', item: { id: 'm', type: 'agent_message', text: 'done' } },
      { type: 'turn.completed', usage: { input_tokens: 1, cached_input_tokens: 0, output_tokens: 1 } },
    ],
  ],
  gemini: (words) => [
    [{ type: 'init', timestamp, session_id: uuid, model: 'm' }],
    { type: 'message', timestamp, role: 'assistant', content: words, delta: true },
    [
      {
        type: 'result',
        timestamp,
        status: 'success',
        stats: { input_tokens: 1, output_tokens: 1, cached: 0 },
      },
    ],
  ],
  opencode: (words) => [
    [{ type: 'step_start', timestamp: 1, sessionID: 'ses_1', part: { type: 'step-start' } }],
    {
      type: 'text',
      timestamp: 1795293446653,
      sessionID: 'ses_1',
      part: {
        id: 'prt_1',
        messageID: 'msg_1',
        sessionID: 'ses_1',
        type: 'text',
        text: words,
        time: { start: 1795293446635, end: 1795293446641 },
      },
    },
    [
      {
        type: 'step_finish',
        sessionID: 'ses_1',
        part: { reason: 'stop', tokens: { input: 1, output: 1, cache: { read: 0, write: 0 } }, cost: 0 },
      },
    ],
  ],
  copilot: (words) => [
    [{ type: 'assistant.turn_start', data: {}, id: uuid, timestamp }],
    {
      type: 'assistant.message_delta',
      data: { messageId: uuid, deltaContent: words },
      ephemeral: true,
      id: uuid,
      timestamp,
      parentId: uuid,
    },
    [{ type: 'result', timestamp, sessionId: uuid, exitCode: 0, usage: {} }],
  ],
  qwen: (words) => [
    [{ type: 'system', subtype: 'init', session_id: uuid, model: 'm' }],
    {
      type: 'stream_event',
      uuid,
      session_id: uuid,
      parent_tool_use_id: null,
      event: { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: words } },
    },
    [successful],
  ],
  pi: (words) => {
    const message = {
      role: 'assistant',
      content: [{ type: 'text', text: words.slice(0, words.length / 2) }],
      stopReason: 'stop',
      usage: { input: 1, output: 1, cacheRead: 0 },
    }
    return [
      [{ type: 'session', version: 3, id: uuid }],
      {
        type: 'message_update',
        assistantMessageEvent: { type: 'text_delta', contentIndex: 0, delta: 'word ', partial: message },
        message,
      },
      [
        { type: 'message_end', message },
        { type: 'agent_end', messages: [] },
      ],
    ]
  },
}

function lineOf(provider) {
  let words = ''
  while (JSON.stringify(streams[provider](words)[1]).length < BYTES - 1)
    words += provider === 'codex' && words.length % 60 === 59 ? '\n' : 'words and more '[words.length % 15]
  return words
}

function record(file, provider) {
  const [first, work, last] = streams[provider](lineOf(provider))
  const line = `${JSON.stringify(work)}\n`
  const text = (objects) => objects.map((object) => `${JSON.stringify(object)}\n`).join('')
  writeFileSync(file, text(first) + line.repeat(EVENTS) + text(last))
}

/** What a user would write. */
function plainly(file) {
  return new Promise((resolve) => {
    const child = spawn('cat', [file], { stdio: ['ignore', 'pipe', 'inherit'] })
    let rest = ''
    let count = 0
    let answer = ''
    child.stdout.setEncoding('utf8')
    child.stdout.on('data', (chunk) => {
      const lines = (rest + chunk).split('\n')
      rest = lines.pop()
      for (const line of lines) {
        const event = JSON.parse(line)
        switch (event.type) {
          case 'assistant':
            answer = event.message.content[0].text
            break
          case 'item.completed':
            answer = event.item.text
            break
          case 'message':
            answer = event.content
            break
          default:
            count++
        }
        count++
      }
    })
    child.on('close', () => resolve({ count, answer }))
  })
}

function median(runs) {
  return runs.sort((one, other) => one.ms - other.ms)[Math.floor(runs.length / 2)]
}

async function measured(work) {
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  const [cpu, start] = [process.cpuUsage(), performance.now()]
  const idle = performance.eventLoopUtilization()
  await work()
  const { utilization } = performance.eventLoopUtilization(idle)
  const { user, system } = process.cpuUsage(cpu)
  delay.disable()
  return {
    ms: performance.now() - start,
    cpuMs: (user + system) / 1000,
    busy: utilization,
    delayMs: delay.max / 1e6,
  }
}

// An agent that is no bottleneck: it only copies the file to stdout.
const playing = (provider, file) =>
  new Harness({ provider, binary: ['sh', '-c', 'exec cat "$0"', file] }).run('go')

if (process.argv[2] === '--alone') {
  await playing(process.argv[3], process.argv[4])
  console.log(Math.round(process.resourceUsage().maxRSS / 1024))
  process.exit()
}

const wanted = process.argv.slice(2)
const folder = mkdtempSync(join(tmpdir(), 'bench-harness-'))
try {
  console.log(`${EVENTS / 1000}k events of ${BYTES} bytes, nobody iterates`)
  for (const provider of Object.keys(streams).filter(
    (name) => wanted.length === 0 || wanted.includes(name),
  )) {
    const file = join(folder, 'stream')
    record(file, provider)
    const ours = []
    const theirs = []
    for (let round = 0; round < 5; round++) {
      ours.push(await measured(() => playing(provider, file)))
      theirs.push(await measured(() => plainly(file)))
    }
    const [our, their] = [median(ours), median(theirs)]
    const peak = execFileSync(process.execPath, [fileURLToPath(import.meta.url), '--alone', provider, file])
    const rate = ({ ms }) => `${Math.round(EVENTS / ms)}k/s`
    console.log(
      `${provider.padEnd(12)} harness ${rate(our).padStart(7)} (main thread busy ${(our.busy * 100).toFixed(0)} %, ` +
        `all CPU ${our.cpuMs.toFixed(0)} ms, peak ${String(peak).trim()} MB)   JavaScript ${rate(their).padStart(6)} ` +
        `(${their.cpuMs.toFixed(0)} ms)   ${(their.ms / our.ms).toFixed(1)}x`,
    )
  }

  if (wanted.length === 0) {
    const line = JSON.stringify(streams.codex(lineOf('codex'))[1])
    const seconds = 5
    const plan = [
      { line: { type: 'thread.started', thread_id: 't' } },
      { repeat: Array(10).fill({ line }), every: 100 },
    ]
    const args = [player, JSON.stringify(plan)]
    const harness = new Harness({ provider: 'codex', binary: ['node', ...args], maxConcurrent: 100 })
    const steady = async (start) => {
      const stops = Array.from({ length: 100 }, start)
      await new Promise((resolve) => setTimeout(resolve, 8000))
      const run = await measured(() => new Promise((resolve) => setTimeout(resolve, seconds * 1000)))
      await Promise.all(stops.map((stop) => stop()))
      return run
    }
    const ours = (isIterated) =>
      steady(() => {
        const turn = harness.start('go')
        void (async () => {
          if (!isIterated) return
          for await (const _ of turn);
        })()
        return () => turn.abort()
      })
    const theirs = () =>
      steady(() => {
        const child = spawn('node', args, { stdio: ['ignore', 'pipe', 'inherit'] })
        createInterface({ input: child.stdout }).on('line', (text) => JSON.parse(text))
        return () => child.kill('SIGKILL')
      })
    const [silent, iterated, plain] = [await ours(false), await ours(true), await theirs()]
    const busy = ({ busy }) => `${(busy * 100).toFixed(1)} %`
    console.log(
      `100 agents, 100 lines/s each, main thread busy: harness ${busy(silent)}, iterated (two events a line) ` +
        `${busy(iterated)}, readline and JSON.parse ${busy(plain)}`,
    )
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
