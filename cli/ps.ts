// sheepdog ps: every tree of this user.
import { listTrees, listWorktrees, type AgentWorktree, type RunTree } from '../lib/index'
import { parseArguments, UsageError } from './arguments'
import { type Ending, type OptionTable, flag } from './command'
import { showBytes, showDuration } from './figure'
import { json, put, tell } from './screen'
import { fitWidth, plainText } from './width'

export const summary = 'list what runs, and what was left behind'

export const forms = ['[--json]']

export const about = `
Lists every process tree of this user that Sheepdog started, from any host program. Shows how long each has run and been
silent, its processes and their memory, and its name or the beginning of its prompt.
Below them are the checkouts of agents (--worktree) with their repository.

running    its host supervises it
kept       its run is over, and it was left behind on purpose (strays: "keep")
left       its host is gone; sheepdog reap ends it
elsewhere  its host is in another container or boot, and nothing is known of it`

export const options = {
  json: flag('print JSON lines: one for each tree, then { "worktree" } for each checkout'),
} as const satisfies OptionTable

export const notes = `
A run that is younger than 200 ms has no name yet. Linux only.`

export const examples = ['sheepdog ps', 'sheepdog ps --json']

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals } = parseArguments(args, options)
  if (positionals.length > 0) throw new UsageError(`unexpected ${JSON.stringify(positionals[0])}`)
  const trees = await listTrees()
  const worktrees = await listWorktrees()
  if (values.json)
    put(
      'stdout',
      [...trees, ...worktrees.map((worktree) => ({ worktree }))].map((one) => `${json(one)}\n`).join(''),
    )
  else if (trees.length + worktrees.length === 0) tell('sheepdog: nothing runs')
  else {
    if (trees.length > 0) put('stdout', table(trees))
    put('stdout', worktrees.map(describe).join(''))
  }
  return 0
}

function describe({ id, state, hostPid, repository, path }: AgentWorktree): string {
  const what =
    path === repository
      ? `apply to ${plainText(repository)}, killed before all files were written`
      : `checkout of ${plainText(repository)} in ${plainText(path)}`
  return `${id}  ${state}  ${hostPid}  ${what}\n`
}

const columns: [title: string, cell: (tree: RunTree) => string][] = [
  ['ID', ({ id }) => id],
  ['STATE', ({ state }) => state],
  ['HOST', ({ hostPid }) => `${hostPid}`],
  ['PID', ({ pid, processes }) => `${pid ?? processes[0]?.pid ?? ''}`],
  ['RUNS', ({ durationMs }) => showDuration(durationMs)],
  ['SILENT', ({ silentMs }) => (silentMs === null ? '' : showDuration(silentMs))],
  ['PROCESSES', ({ processes }) => `${processes.length}`],
  ['MEMORY', ({ rssBytes }) => showBytes(rssBytes)],
  ['NAME', ({ name, command }) => plainText(name ?? command)],
]

/** The last column takes what is left of a terminal's width. */
function table(trees: RunTree[]): string {
  const rows = [
    columns.map(([title]) => title),
    ...trees.map((tree) => columns.map(([, cell]) => cell(tree))),
  ]
  const widths = columns.map((_, index) => Math.max(...rows.map((row) => row[index]!.length)))
  const before = widths.slice(0, -1).reduce((sum, width) => sum + width + 2, 0)
  const last = Math.max(20, (process.stdout.columns ?? Infinity) - before)
  const line = (row: string[]) =>
    row
      .map((cell, index) =>
        index === row.length - 1 ? fitWidth(cell, last) : cell.padEnd(widths[index]! + 2),
      )
      .join('')
  return `${rows.map(line).join('\n')}\n`
}
