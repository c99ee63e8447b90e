// sheepdog race: several agents on one prompt, and a command that decides.
import { text as readAll } from 'node:stream/consumers'
import { Harness, race, type HarnessOptions, type RaceEntry } from '../lib/index'
import { providerNames } from '../lib/harness/provider'
import { parseArguments, UsageError } from './arguments'
import { bringHome, describeChanges } from './changed'
import { counted, type Ending, type OptionTable, several, setting, flag } from './command'
import { showCost } from './event'
import { showDuration } from './figure'
import { leaveBy, onInterrupt } from './interrupt'
import { json as toJson, put, tell } from './screen'
import { withoutWorkspace } from './sandbox'
import { toTurnOptions, turnOptions } from './turn_options'

export const summary = 'give one prompt to several agents, and let your tests decide'

export const forms = ['"PROMPT" --agent PROVIDER ... [--verify COMMAND] [options]']

export const about = `
Each agent works in a checkout of its own of the git repository. When an agent is done, and nothing of it lives any more, COMMAND runs
in its checkout. The first that passes wins, and the others are killed. The answer of the winner is printed on stdout. Your working
tree stays as it is, unless --apply is given. A PROMPT of - is read from stdin.

The other options are those of each agent's turn, as of sheepdog agent.`

export const operands = [{ name: 'PROMPT' }] as const

const { worktree: _, changes: __, resume: ___, binary: ____, ...shared } = turnOptions

export const options = {
  agent: several(
    'PROVIDER',
    'an agent that takes part; repeat it for more agents, or for more tries of one',
    providerNames(),
  ),
  verify: setting(
    'COMMAND',
    'a line for sh that decides on an entry by its exit status (default: the end of the turn)',
  ),
  all: flag('let all run to their end'),
  apply: flag("merge the winner's changes into your working tree, all or nothing"),
  concurrency: counted('run at most so many at once (default: all)'),
  deadline: setting('DURATION', 'kill those that still run after this long'),
  ...shared,
  json: flag('print one JSON line with the winner and all entries'),
} as const satisfies OptionTable

export const notes = `
Exit status: 0 if an agent won, 2 for a wrong command line, else 1. Ctrl-C kills all agents.`

export const examples = [
  'sheepdog race "Fix it" --agent codex --agent claude-code --verify "npm test"',
  'sheepdog race "Fix it" --agent codex --agent codex --sandbox --apply',
]

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals } = parseArguments(withoutWorkspace(args), options)
  const [prompt, ...rest] = positionals
  if (prompt === undefined || !values.agent)
    throw new UsageError('a prompt and an agent are needed: sheepdog race "PROMPT" --agent PROVIDER')
  if (rest.length > 0)
    throw new UsageError(`put the prompt in quotes: ${JSON.stringify(rest[0])} was not expected`)
  const { cwd, ...turn } = toTurnOptions(values)
  const agents = values.agent.map((provider) => new Harness({ ...turn, provider } as HarnessOptions))
  const stop = new AbortController()
  if (!values.json)
    tell(`sheepdog: a race of ${agents.length === 1 ? 'one agent' : `${agents.length} agents`}`)
  const interrupt = onInterrupt(() => stop.abort(), leaveBy)
  try {
    const { winner, entries } = await race(prompt === '-' ? await readAll(process.stdin) : prompt, {
      cwd,
      agents,
      verify: values.verify === undefined ? undefined : ['sh', '-c', values.verify],
      winner: values.all ? 'all' : 'first',
      concurrency: values.concurrency,
      timeoutMs: values.deadline,
      signal: stop.signal,
      onEntry: values.json ? undefined : tellEntry,
    })
    if (values.apply) await bringHome(winner?.changes)
    if (values.json) put('stdout', `${toJson({ winner: winner && entries.indexOf(winner), entries })}\n`)
    else tellEnd(winner, entries, values.apply === true)
    return winner ? 0 : 1
  } catch (error) {
    if (interrupt.signal) return interrupt.signal
    throw error
  } finally {
    interrupt.end()
  }
}

function tellEntry({ provider, state, usage, error, durationMs }: RaceEntry): void {
  const tokens = usage && `${usage.inputTokens + usage.outputTokens} tokens`
  const cost = usage?.costUsd === undefined ? undefined : showCost(usage.costUsd)
  const facts = [showDuration(durationMs), tokens, cost].filter((fact) => fact !== undefined).join(', ')
  const why = error && state !== 'aborted' ? `: ${error.code}: ${error.message}` : ''
  tell(`sheepdog: ${provider} ${state} (${facts})${why}`)
}

function tellEnd(winner: RaceEntry | undefined, entries: readonly RaceEntry[], isApplied: boolean): void {
  const lost = entries.filter((entry) => entry !== winner && entry.changes?.ref)
  for (const { provider, state, changes } of lost)
    tell(`sheepdog: ${provider} ${state}: git diff HEAD ${changes!.ref}`)
  if (!winner) return tell('sheepdog: nobody passed')
  tell(`sheepdog: ${winner.provider} won`)
  if (winner.changes) for (const line of describeChanges(winner.changes, isApplied)) tell(line)
  const text = winner.result?.text ?? ''
  put('stdout', text.endsWith('\n') ? text : `${text}\n`)
}
