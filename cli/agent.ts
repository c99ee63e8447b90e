// sheepdog agent: one turn of an agent.
import { readFileSync } from 'node:fs'
import { text as readAll } from 'node:stream/consumers'
import {
  Harness,
  type AgentEvent,
  type ProviderName,
  type SheepdogError,
  type TurnOptions,
  type TurnResult,
} from '../lib/index'
import { providerNames } from '../lib/harness/provider'
import { parseArguments, parseDuration, UsageError } from './arguments'
import { describeEvent, describeResult, showCost } from './event'
import { onInterrupt } from './interrupt'
import { LiveLine, liveState } from './live'
import { Output } from './output'
import { recordOptions, recordUsage } from './record'

export const summary = 'one turn of a coding agent, with its events as they come'

export const usage = `Usage: sheepdog agent PROVIDER "PROMPT" [options]

Runs one turn of an agent: ${providerNames().join(', ')}.
What it does is told on stderr as it comes; on a terminal a live line shows how long it has been
running, how long it has been silent, the tool in progress, tokens and cost. The answer is printed on
stdout at the end. A PROMPT of - is read from stdin.

Options:
  --schema FILE        JSON Schema of the answer: the answer is printed as JSON that fits it
  --resume ID          go on with the session of an earlier turn, in the same folder
  --model NAME         the model that the agent is to use
  --plan               read only: the agent may look, but not change anything
  --cwd FOLDER         where the agent works (default: here)
  --idle DURATION      end it after so long without output (default 300s, 900s while a tool runs)
  --timeout DURATION   end an attempt after so long in any case (default 30m)
${recordUsage}  --json               print JSON lines: each event, then one line with the result
  -h, --help           show this

Exit status: 0 if the turn succeeded, else 1. Ctrl-C aborts the turn; nothing it started is left.

Examples:
  sheepdog agent codex "Which tests fail, and why?"
  sheepdog agent claude-code "List the open questions" --schema questions.schema.json
`

const table = {
  schema: { type: 'string' },
  resume: { type: 'string' },
  model: { type: 'string' },
  plan: { type: 'boolean' },
  cwd: { type: 'string' },
  idle: { type: 'string' },
  timeout: { type: 'string' },
  json: { type: 'boolean' },
  ...recordOptions,
} as const

export async function run(args: string[]): Promise<number> {
  const { values, positionals, command } = parseArguments(args, table)
  const words = [...positionals, ...(command ?? [])]
  const [provider, prompt, ...rest] = words
  if (!provider || prompt === undefined)
    throw new UsageError('a provider and a prompt are needed: sheepdog agent PROVIDER "PROMPT"')
  if (rest.length > 0)
    throw new UsageError(`put the prompt in quotes: ${JSON.stringify(rest[0])} was not expected`)
  const options: TurnOptions = {
    resume: values.resume,
    record: values.record,
    name: values.name,
    model: values.model,
    cwd: values.cwd,
    permission: values.plan ? 'plan' : undefined,
    schema: values.schema === undefined ? undefined : readSchema(values.schema),
    timeoutMs: values.timeout === undefined ? undefined : parseDuration('--timeout', values.timeout),
  }
  if (values.idle !== undefined) {
    options.idleTimeoutMs =
      options.toolIdleTimeoutMs =
      options.startTimeoutMs =
        parseDuration('--idle', values.idle)
  }
  const harness = new Harness({ provider: provider as ProviderName })
  return watchTurn(
    harness,
    prompt === '-' ? await readAll(process.stdin) : prompt,
    options,
    values.json ?? false,
  )
}

function readSchema(file: string): object {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    throw new UsageError(`--schema: ${(error as Error).message}`)
  }
  try {
    return JSON.parse(text) as object
  } catch (error) {
    throw new UsageError(`--schema: ${file} is no JSON: ${(error as Error).message}`)
  }
}

async function watchTurn(
  harness: Harness,
  prompt: string,
  options: TurnOptions,
  json: boolean,
): Promise<number> {
  const live = LiveLine.on(process.stderr, liveState(harness.provider, performance.now()))
  const turn = harness.start(prompt, options)
  const output = new Output(live, () => void turn.abort())
  const leave = onInterrupt(
    () => {
      if (live) {
        live.state.note = 'stopping'
        live.draw()
      }
      output.hurry()
      void turn.abort()
    },
    () => process.exit(1),
  )
  live?.draw()
  const cost = { dollars: 0 }
  for await (const event of turn) {
    if (live) note(live, event, harness.provider, cost)
    const line = json ? JSON.stringify(event) : describeEvent(event)
    if (line !== undefined) await output.write(json ? 'stdout' : 'stderr', `${line}\n`)
  }
  let result: TurnResult | undefined
  let error: SheepdogError | undefined
  try {
    result = await turn.result
  } catch (failure) {
    error = failure as SheepdogError
    result = error.result as TurnResult | undefined
  }
  leave()
  live?.close()
  if (json) await output.write('stdout', `${JSON.stringify(resultRecord(result, error))}\n`)
  else {
    if (!error && result) await output.write('stdout', `${answerOf(result)}\n`)
    if (error) output.say(`sheepdog: ${error.code}: ${error.message}`)
    if (result?.attempts) output.say(`sheepdog: ${describeResult(result)}`)
  }
  output.close()
  return error ? 1 : 0
}

function answerOf(result: TurnResult): string {
  return result.structured === undefined ? result.text : JSON.stringify(result.structured, null, 2)
}

/** The last line of --json. */
function resultRecord(result: TurnResult | undefined, error: SheepdogError | undefined): object {
  if (!error) return { type: 'result', ok: true, result }
  const { code, message } = error
  const kind = 'kind' in error ? error.kind : undefined
  const problems = 'problems' in error ? error.problems : undefined
  return { type: 'result', ok: false, error: { code, kind, message, problems }, result }
}

function note(live: LiveLine, event: AgentEvent, provider: string, cost: { dollars: number }): void {
  const { state } = live
  state.lastMs = performance.now()
  if (event.type === 'text') state.last = event.text.trim() || state.last
  if (event.type === 'tool_start') state.tool = event.name
  if (event.type === 'tool_end') state.tool = undefined
  if (event.type === 'usage') {
    state.tokens = (state.tokens ?? 0) + event.inputTokens + event.outputTokens
    cost.dollars += event.costUsd ?? 0
    if (cost.dollars > 0) state.label = `${provider} ${showCost(cost.dollars)}`
  }
}
