// sheepdog ps: every tree of this user.
import { listTrees, type RunTree } from '../lib/index'
import { parseArguments, UsageError } from './arguments'
import type { Ending, OptionTable } from './command'
import { showBytes, showDuration } from './figure'
import { json, put, tell } from './screen'
import { fitWidth, plainText } from './width'

export const summary = 'list the running process trees of all hosts of this user'

export const forms = ['[--json]']

export const about = `
Lists every process tree of this user that Sheepdog started, from any host process: how long it has been running and
silent, its processes and their memory, and its name or the head of its prompt. The states are:

running    its host supervises it
kept       its run is over and left it running on purpose (strays: "keep")
left       its host is gone; sheepdog reap ends it
elsewhere  its host belongs to another container or boot; its state is unknown`

export const options = {
  json: { type: 'boolean', help: 'print one JSON line for each tree' },
} as const satisfies OptionTable

export const notes = `
A run has no name in the first 200 ms. Linux only.`

export const examples = ['sheepdog ps', 'sheepdog ps --json | jq \'select(.state == "left") | .id\'']

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals } = parseArguments(args, options)
  if (positionals.length > 0) throw new UsageError(`unexpected ${JSON.stringify(positionals[0])}`)
  const trees = await listTrees()
  if (values.json) put('stdout', trees.map((tree) => `${json(tree)}\n`).join(''))
  else if (trees.length === 0) tell('sheepdog: nothing runs')
  else put('stdout', table(trees))
  return 0
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
