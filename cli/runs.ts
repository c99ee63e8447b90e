// sheepdog runs: the records of a folder, listed and pruned.
import { existsSync } from 'node:fs'
import {
  listRuns,
  pruneRuns,
  type ListRunsOptions,
  type PruneRunsOptions,
  type RunState,
  type RunSummary,
} from '../lib/index'
import { parseArguments, UsageError } from './arguments'
import { counted, type Ending, type OptionTable, flag, several, setting } from './command'
import { showCost } from './event'
import { showBytes, showCount, showDuration } from './figure'
import { recordsFolder } from './record'
import { json as toJson, print, room, tell } from './screen'
import { fitWidth, plainText } from './width'

export const summary = 'list recorded runs and why they failed; remove old ones'

export const forms = ['[FOLDER] [options]', 'prune [FOLDER] --older DURATION | --max-size SIZE [options]']

export const about = `
Lists the runs, turns and sessions that --record kept in FOLDER (default ${recordsFolder}), the latest first. A run that
did not succeed has its error or exit status on the next line. \`sheepdog replay ID\` shows one of them.

running    it goes on
done       it succeeded
failed     the turn failed, or the program's exit status is not 0
killed     a limit, an abort or a signal ended it
lost       its host was killed before it ended
elsewhere  it has no end, and its host ran on another machine, boot or container

prune removes records. A run that goes on is never removed, and one of the state elsewhere only with --state elsewhere.`

const states = ['running', 'done', 'failed', 'killed', 'lost', 'elsewhere'] as const

export const operands = [{ name: 'FOLDER', fits: 'folder' }] as const

export const options = {
  failed: flag('only those that did not succeed: failed, killed or lost'),
  state: several('S', 'only those in this state; may be repeated', states),
  provider: setting('NAME', 'list: only turns and sessions of this agent'),
  since: setting('DURATION', 'list: only those that started within this time (7d, 12h)'),
  limit: counted('list: at most so many'),
  older: setting('DURATION', 'prune: remove those that ended at least this long ago (7d, 12h)'),
  'max-size': setting('SIZE', 'prune: remove the oldest until all have at most this size (2GB, 500M)'),
  'dry-run': flag('prune: count, and remove nothing'),
  json: flag('list: print JSON lines, one for each run; prune: print JSON'),
} as const satisfies OptionTable

export const examples = [
  'sheepdog runs --failed --since 24h',
  'sheepdog runs --provider codex --json',
  'sheepdog runs prune --older 7d --max-size 2GB',
]

type Values = ReturnType<typeof parseArguments<typeof options>>['values']

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals } = parseArguments(args, options)
  const prunes = positionals[0] === 'prune'
  const [folder = recordsFolder, ...rest] = prunes ? positionals.slice(1) : positionals
  if (rest.length > 0) throw new UsageError(`unexpected ${JSON.stringify(rest[0])}`)
  refuseOthers(values, prunes)
  const wanted = statesOf(values)
  const act = prunes ? prune(folder, pruneOptions(values, wanted)) : list(folder, listOptions(values, wanted))
  // Nothing was recorded yet: that is no fault, as long as nobody named the folder.
  const isEmpty = positionals.length === (prunes ? 1 : 0) && !existsSync(folder)
  if (!isEmpty) return act(values.json ?? false)
  tell(`sheepdog: there are no records: ${recordsFolder} does not exist (--record makes it)`)
  return 0
}

const listOnly = ['provider', 'since', 'limit'] as const
const pruneOnly = ['older', 'max-size', 'dry-run'] as const

function refuseOthers(values: Values, prunes: boolean): void {
  const wrong = (prunes ? listOnly : pruneOnly).find((name) => values[name] !== undefined)
  if (wrong === undefined) return
  throw new UsageError(
    prunes
      ? `--${wrong} is an option of the list, not of prune`
      : `--${wrong} is an option of prune: sheepdog runs prune`,
  )
}

function statesOf({ failed, state }: Values): RunState[] | undefined {
  if (failed && state) throw new UsageError('--failed and --state exclude each other')
  const wrong = state?.find((one) => !states.some((known) => known === one))
  if (wrong !== undefined)
    throw new UsageError(`--state: expected ${states.join(', ')}, got ${JSON.stringify(wrong)}`)
  return failed ? ['failed', 'killed', 'lost'] : (state as RunState[] | undefined)
}

function listOptions(values: Values, state: RunState[] | undefined): ListRunsOptions {
  const { provider, since = Infinity, limit } = values
  const from = since === Infinity ? undefined : new Date(Math.max(0, Date.now() - since))
  return { state, provider, since: from, limit }
}

function pruneOptions(values: Values, wanted: RunState[] | undefined): PruneRunsOptions {
  const { older = Infinity, 'max-size': maxBytes, 'dry-run': dryRun } = values
  if (older === Infinity && maxBytes === undefined)
    throw new UsageError('prune needs --older DURATION or --max-size SIZE: sheepdog runs prune --older 7d')
  if (wanted?.includes('running')) throw new UsageError('--state: a run that goes on is never removed')
  const olderThanMs = older === Infinity ? undefined : older
  return { olderThanMs, maxBytes, states: wanted as PruneRunsOptions['states'], dryRun }
}

function list(folder: string, options: ListRunsOptions) {
  return async (json: boolean): Promise<number> => {
    let count = 0
    for await (const run of listRuns(folder, options)) {
      if (!json && count === 0) print(head())
      count++
      if (json) print(toJson(run))
      else linesOf(run).forEach(print)
      if (!(await room('stdout'))) return 0
    }
    if (count === 0 && !json) tell(`sheepdog: no such run in ${folder}`)
    return 0
  }
}

function prune(folder: string, options: PruneRunsOptions) {
  return async (json: boolean): Promise<number> => {
    const pruned = await pruneRuns(folder, options)
    const what = `${showCount(pruned.runs, 'run')} (${showBytes(pruned.bytes)})`
    print(json ? toJson(pruned) : `${options.dryRun ? 'would remove' : 'removed'} ${what}`)
    for (const problem of pruned.problems ?? []) tell(`sheepdog runs: not removed: ${problem}`)
    return pruned.problems ? 1 : 0
  }
}

/** Columns have fixed widths, so that a long list needs no memory. */
const columns: [title: string, width: number, cell: (run: RunSummary) => string][] = [
  ['ID', 31, ({ id }) => id],
  ['STATE', 9, ({ state }) => state],
  ['TOOK', 8, ({ durationMs }) => (durationMs === undefined ? '' : showDuration(durationMs))],
  ['TOKENS', 9, ({ usage }) => (usage ? `${usage.inputTokens + usage.outputTokens}` : '')],
  ['COST', 8, ({ usage }) => (usage?.costUsd ? showCost(usage.costUsd) : '')],
  ['WHAT', 12, ({ kind, provider }) => plainText(provider ?? kind)],
]

function head(): string {
  return `${columns.map(([title, width]) => title.padEnd(width)).join('  ')}  NAME`
}

function linesOf(run: RunSummary): string[] {
  const cells = columns.map(([, width, cell]) => cell(run).padEnd(width)).join('  ')
  const left = Math.max(20, (process.stdout.columns ?? Infinity) - cells.length - 2)
  const why = whyOf(run)
  return [`${cells}  ${fitWidth(plainText(run.name), left)}`, ...(why ? [`    ${plainText(why)}`] : [])]
}

/** Why it did not succeed. */
function whyOf({ state, error, exitCode, signal, failedPrompts }: RunSummary): string | undefined {
  const failed = failedPrompts && showCount(failedPrompts, 'prompt failed', 'prompts failed')
  if (failed && !error) return failed
  if (error)
    return `${failed ? `${failed}: ` : ''}${error.code}${error.kind ? ` (${error.kind})` : ''}: ${error.message}`
  if (state === 'done' || state === 'running') return undefined
  if (signal) return `ended by ${signal}`
  return exitCode === undefined ? undefined : `exit status ${exitCode}`
}
