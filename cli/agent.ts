// sheepdog agent: one turn of an agent.
import { text as readAll } from 'node:stream/consumers'
import {
  Harness,
  type AgentEvent,
  type SheepdogError,
  type Turn,
  type TurnOptions,
  type TurnResult,
} from '../lib/index'
import { providerNames } from '../lib/harness/provider'
import { elapsedMs } from '../lib/host'
import { whom } from './agent_command'
import { parseArguments, UsageError, usageStatus } from './arguments'
import { type Ending, type OptionTable, flag } from './command'
import { describeResult, showCost, Story } from './event'
import { bringHome, describeChanges } from './changed'
import { leaveBy, onInterrupt, signalStatus } from './interrupt'
import { LiveLine, liveState } from './live'
import { Output } from './output'
import { json as toJson } from './screen'
import { withoutWorkspace } from './sandbox'
import { toTurnOptions, turnOptions } from './turn_options'
import { inCommandWords } from './words'

export const summary = 'run one turn of a coding agent'

export const forms = ['PROVIDER "PROMPT" [options]', '"PROMPT" [options] -- COMMAND [ARGUMENTS]']

export const about = `
Runs one turn of an agent: ${providerNames().join(', ')}. Its events appear on stderr. On a terminal a live line shows
how long it has been running and silent, the tool in progress, tokens and cost. The answer is printed on stdout at the
end. A PROMPT of - is read from stdin.

A COMMAND is any other agent: a program that speaks the Agent Client Protocol.`

export const operands = [{ name: 'PROVIDER', fits: providerNames() }, { name: 'PROMPT' }] as const

export const options = {
  ...turnOptions,
  apply: flag('with --worktree: merge what it changed into your working tree, all or nothing'),
  quiet: { type: 'boolean', short: 'q', help: 'print only the answer, or the error' },
  json: flag('print JSON lines: each event, then one line with the result'),
} as const satisfies OptionTable

export const notes = `
Exit status: 0 if the turn succeeded, 2 for a wrong command line, else 1. Ctrl-C aborts the turn; sheepdog ends by
SIGINT when the agent's tree is gone.`

export const examples = [
  'sheepdog agent codex "Which tests fail, and why?"',
  'sheepdog agent claude-code "Run the tests" --allow "npm test" --sandbox',
  'sheepdog agent claude-code "List the open questions" --schema list.json',
  'sheepdog agent codex "Fix the failing test" --worktree --apply',
  'git diff | sheepdog agent codex - --quiet > review.txt',
  'sheepdog agent "Fix the failing test" --sandbox -- cline --acp',
]

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals, command } = parseArguments(withoutWorkspace(args), options)
  const { provider, words } = whom(positionals, command, values)
  const [prompt, ...rest] = words
  if (!provider || prompt === undefined)
    throw new UsageError('a provider and a prompt are needed: sheepdog agent PROVIDER "PROMPT"')
  if (rest.length > 0)
    throw new UsageError(`put the prompt in quotes: ${JSON.stringify(rest[0])} was not expected`)
  const { binary, ...turn } = toTurnOptions(values)
  if (values.apply && !turn.worktree)
    throw new UsageError('--apply belongs to --worktree: without it the agent works in your folder')
  const harness = new Harness({ provider, binary })
  return watchTurn(harness, prompt === '-' ? await readAll(process.stdin) : prompt, turn, values)
}

async function watchTurn(
  harness: Harness,
  prompt: string,
  options: TurnOptions,
  { json = false, quiet = false, apply = false }: { json?: boolean; quiet?: boolean; apply?: boolean },
): Promise<Ending> {
  const live = quiet ? undefined : LiveLine.on(process.stderr, liveState(harness.provider, elapsedMs()))
  const turn = harness.start(prompt, options)
  const output = new Output(live, () => void turn.abort())
  const interrupt = onInterrupt(
    () => {
      if (live) {
        live.state.note = 'stopping'
        live.draw()
      }
      output.hurry()
      void turn.abort()
    },
    (signal) => {
      live?.close()
      leaveBy(signal)
    },
  )
  live?.draw()
  const cost = { dollars: 0 }
  const story = new Story()
  for await (const event of turn) {
    if (live) note(live, event, harness.provider, cost)
    if (json) await output.write('stdout', `${toJson(event)}\n`)
    else if (!quiet) for (const line of story.tell(event)) await output.write('stderr', `${line}\n`)
  }
  const { result, error } = await settled(turn, apply)
  interrupt.end()
  live?.close()
  if (json) await output.write('stdout', `${toJson(resultRecord(result, error))}\n`)
  else {
    for (const line of quiet ? [] : story.end(error ? undefined : result)) output.say(line)
    if (!error && result) await output.write('stdout', answerOf(result))
  }
  // A turn that we ended because of that has no other reason.
  if (output.broken) output.sayBroken('sheepdog agent')
  else if (error && !json) output.say(`sheepdog: ${error.code}: ${inCommandWords(error.message)}`)
  if (result?.attempts && !quiet && !json) output.say(`sheepdog: ${describeResult(result)}`)
  if (result?.changes && !quiet && !json)
    for (const line of describeChanges(result.changes, apply && !error)) output.say(line)
  output.close()
  if (interrupt.signal) return interrupt.signal
  if (output.brokenQuietly) return signalStatus('SIGPIPE')
  if (error?.code === 'INVALID_OPTION') return usageStatus
  return error || output.broken ? 1 : 0
}

/** A result whose changes cannot be applied comes with that error. */
async function settled(turn: Turn, apply: boolean): Promise<{ result?: TurnResult; error?: SheepdogError }> {
  let result: TurnResult | undefined
  try {
    result = await turn.result
    if (apply) await bringHome(result.changes)
    return { result }
  } catch (failure) {
    const error = failure as SheepdogError
    return { result: result ?? (error.result as TurnResult | undefined), error }
  }
}

/** One line end behind it, whether or not the agent made one. */
function answerOf(result: TurnResult): string {
  const text = result.structured === undefined ? result.text : toJson(result.structured, 2)
  return text.endsWith('\n') ? text : `${text}\n`
}

/** The last line of --json. */
function resultRecord(result: TurnResult | undefined, error: SheepdogError | undefined): object {
  if (!error) return { type: 'result', ok: true, result }
  const { code, kind, message } = error
  const { problems, files } = error as { problems?: unknown; files?: unknown }
  return { type: 'result', ok: false, error: { code, kind, message, problems, files }, result }
}

function note(live: LiveLine, event: AgentEvent, provider: string, cost: { dollars: number }): void {
  const { state } = live
  state.lastMs = elapsedMs()
  if (event.type === 'text') state.last = event.text.trim() || state.last
  if (event.type === 'tool_start') state.tool = event.name
  if (event.type === 'tool_end') state.tool = undefined
  if (event.type === 'usage') {
    state.tokens = (state.tokens ?? 0) + event.inputTokens + event.outputTokens
    cost.dollars += event.costUsd ?? 0
    if (cost.dollars > 0) state.label = `${provider} ${showCost(cost.dollars)}`
  }
}
