// The program of `scriptedAgent`: an agent of the Agent Client Protocol that does what a script says. `node FILE FOLDER`: the
// folder has the script, and a log of what happened, which outlives each process of the agent.
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { timers } from '../host'
import { toJson } from '../json'

/** JSON of the script and of the protocol's peer, which is Sheepdog. */
type Parsed = ReturnType<typeof JSON.parse>

interface Message {
  id?: number | string
  method?: string
  params?: Parsed
  result?: Parsed
  error?: { code: number; message: string }
}

const folder = process.argv[2]!
const script: Parsed[] = JSON.parse(readFileSync(join(folder, 'script.json'), 'utf8'))
const logFile = join(folder, 'log.jsonl')
const modes = ['edit', 'plan', 'ask', 'auto']

const log = (line: object) => appendFileSync(logFile, `${toJson('message', line)}\n`)
const logged = (): Parsed[] =>
  existsSync(logFile)
    ? readFileSync(logFile, 'utf8')
        .trim()
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line))
    : []

let mode = 'edit'
let sessionId = ''
let servers: Parsed[] = []
let isCancelled = false
let onCancel = () => {}
let nextId = 1
const waiting = new Map<number | string, (message: Message) => void>()

function send(message: object): void {
  process.stdout.write(`${toJson('message', { jsonrpc: '2.0', ...message })}\n`)
}

function update(fields: object): void {
  send({ method: 'session/update', params: { sessionId, update: fields } })
}

function request(method: string, params: object): Promise<Message> {
  const id = nextId++
  send({ id, method, params: { sessionId, ...params } })
  return new Promise((resolve) => waiting.set(id, resolve))
}

function settings(): object {
  return { modes: { currentModeId: mode, availableModes: modes.map((id) => ({ id, name: id })) } }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = timers.setTimeout(resolve, ms)
    onCancel = () => (timers.clearTimeout(timer), resolve())
  })
}

/** The next step of the script for this prompt. Each is played once, but a failure with nothing behind it lasts. */
function stepFor(text: string): number {
  const played = logged().flatMap(({ step }) => (step === undefined ? [] : [step as number]))
  const fits = ({ on }: Parsed) =>
    on === undefined ||
    (typeof on === 'string' ? text.includes(on) : new RegExp(on.source, on.flags).test(text))
  const next = script.findIndex((step, index) => !played.includes(index) && fits(step))
  const last = played.at(-1) ?? -1
  return next < 0 && script[last]?.error && fits(script[last]) ? last : next
}

type OwnTool = (input: unknown) => Promise<{ output: string; isError: boolean }>

/** A tool of the caller, through the server that has it; `undefined` when none has it. */
async function ownTool(name: string): Promise<OwnTool | undefined> {
  for (const { url, headers = [] } of servers.filter((server) => server.url)) {
    const post = async (body: object) => {
      const response = await fetch(url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          ...Object.fromEntries(headers.map((header: Parsed) => [header.name, header.value])),
        },
        body: toJson('message', { jsonrpc: '2.0', ...body }),
      })
      return response.status === 202 ? undefined : ((await response.json()) as Message)
    }
    const clientInfo = { name: 'scripted', version: '1' }
    await post({
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo },
    })
    await post({ method: 'notifications/initialized' })
    const listed = await post({ id: 2, method: 'tools/list' })
    if (!listed?.result?.tools?.some((tool: Parsed) => tool.name === name)) continue
    return async (input) => {
      const called = await post({ id: 3, method: 'tools/call', params: { name, arguments: input ?? {} } })
      const content: Parsed[] = called?.result?.content ?? []
      const output = content.map(({ text }) => text ?? '').join('\n') || (called?.error?.message ?? '')
      return { output, isError: called?.error !== undefined || called?.result?.isError === true }
    }
  }
  return undefined
}

async function playTool(tool: Parsed, toolCallId: string, answers: unknown[]): Promise<void> {
  const { name, kind = 'other', input = {} } = tool
  const own = await ownTool(name)
  // A tool of the caller has the name that agents make of it.
  const title = own ? `mcp__sheepdog__${name}` : typeof input.command === 'string' ? input.command : name
  const facts = { toolCallId, title, kind, rawInput: input }
  update({ sessionUpdate: 'tool_call', ...facts, status: 'pending' })
  const end = (output: string, isError: boolean) =>
    update({
      sessionUpdate: 'tool_call_update',
      toolCallId,
      status: isError ? 'failed' : 'completed',
      content: [{ type: 'content', content: { type: 'text', text: output } }],
    })
  // As agents do: what a tool of the caller may do is not theirs to know.
  if (tool.ask ?? own !== undefined) {
    const options = [
      { optionId: 'once', name: 'Once', kind: 'allow_once' },
      { optionId: 'no', name: 'No', kind: 'reject_once' },
    ]
    const { result } = await request('session/request_permission', { toolCall: facts, options })
    const isAllowed = result?.outcome?.optionId === 'once'
    answers.push(isAllowed ? 'allow' : 'reject')
    if (!isAllowed) return end('refused', true)
  }
  update({ sessionUpdate: 'tool_call_update', toolCallId, status: 'in_progress' })
  const called = await own?.(input)
  end(called?.output ?? tool.output ?? '', called?.isError ?? tool.isError ?? false)
}

async function play(text: string): Promise<object> {
  isCancelled = false
  const index = stepFor(text)
  const answers: unknown[] = []
  const step = script[index]
  // Told before it is played: a step that is killed was played too.
  log({ prompt: text, sessionId, step: index })
  if (!step)
    return {
      error: {
        code: -32602,
        message: `scriptedAgent: no step of the script fits this prompt: ${toJson('prompt', text.slice(0, 100))}`,
      },
    }
  if (step.stallMs !== undefined) await pause(step.stallMs)
  if (isCancelled) return { result: { stopReason: 'cancelled' } }
  if (step.tool) await playTool(step.tool, `tool-${index}`, answers)
  if (step.ask) {
    const { message, schema = { type: 'object', properties: {} } } = step.ask
    const answer = await request('elicitation/create', { mode: 'form', message, requestedSchema: schema })
    answers.push(answer.result ?? answer.error)
  }
  if (answers.length > 0) log({ answers })
  if (isCancelled) return { result: { stopReason: 'cancelled' } }
  if (step.error) return { error: { code: -32603, message: step.error } }
  const said = step.structured === undefined ? step.say : toJson('structured', step.structured)
  if (said) update({ sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: said } })
  const { inputTokens = 10, outputTokens = 5, cachedInputTokens = 0 } = step.usage ?? {}
  // As the protocol counts them: those from a cache beside the others.
  const totalTokens = inputTokens + outputTokens + cachedInputTokens
  const usage = { inputTokens, outputTokens, cachedReadTokens: cachedInputTokens, totalTokens }
  return { result: { stopReason: 'end_turn', usage } }
}

const methods: Record<string, (params: Parsed) => object> = {
  initialize: () => ({
    protocolVersion: 1,
    agentInfo: { name: 'scripted', version: '1' },
    agentCapabilities: {
      loadSession: true,
      mcpCapabilities: { http: true },
      promptCapabilities: { image: true, embeddedContext: true },
    },
  }),
  'session/new': ({ mcpServers }) => {
    servers = mcpServers ?? []
    sessionId = `scripted-${logged().filter(({ opened }) => opened).length + 1}`
    log({ opened: sessionId })
    return { sessionId, ...settings() }
  },
  'session/load': (params) => {
    servers = params.mcpServers ?? []
    if (!logged().some(({ opened }) => opened === params.sessionId))
      throw { code: -32002, message: `Resource not found: Session ${params.sessionId} not found` }
    sessionId = params.sessionId
    return settings()
  },
  'session/set_mode': ({ modeId }) => ((mode = modeId), {}),
}

async function onRequest({ id, method, params }: Message): Promise<void> {
  if (method === 'session/prompt') {
    const text = params.prompt.map((block: Parsed) => block.text ?? '').join('')
    return send({ id, ...(await play(text)) })
  }
  const act = methods[method!]
  try {
    send(act ? { id, result: act(params) } : { id, error: { code: -32601, message: 'Method not found' } })
  } catch (error) {
    send({ id, error })
  }
}

const lines = createInterface({ input: process.stdin })
lines.on('line', (line) => {
  const message = JSON.parse(line) as Message
  if (message.method === undefined) {
    waiting.get(message.id!)?.(message)
    waiting.delete(message.id!)
  } else if (message.method === 'session/cancel') {
    isCancelled = true
    onCancel()
  } else if (message.id !== undefined) void onRequest(message)
})
lines.on('close', () => process.exit(0))
