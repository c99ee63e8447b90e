// sheepdog reap: ends what hosts that are gone left behind.
import { reapTrees, reapWorktrees, type ReapedTree } from '../lib/index'
import { parseArguments } from './arguments'
import { type Ending, type OptionTable, flag } from './command'
import { showBytes, showCount, showDuration } from './figure'
import { json, print, tell } from './screen'
import { plainText } from './width'

export const summary = 'end what dead hosts left behind'

export const forms = ['[ID ...] [--json]']

export const about = `
Ends the trees of this user whose host is gone ("left" in sheepdog ps), all or those with these ids, and says what it
ended. Removes the checkouts of agents whose host is gone; a kept one only by its id. Puts back the files of an apply
that was killed. It does not touch what a living host runs or keeps, nor what belongs to another container.`

export const operands = [{ name: 'ID' }] as const

export const options = {
  json: flag('print JSON lines: one for each tree, then { "worktree" } for each checkout'),
} as const satisfies OptionTable

export const notes = `
Exit status: 0, 1 if a tree could not be ended or a checkout not removed, or 2 for a wrong command line.`

export const examples = ['sheepdog reap', 'sheepdog reap b07de5c2913f6a4e']

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals } = parseArguments(args, options)
  const ids = positionals.length > 0 ? positionals : undefined
  const reaped = await reapTrees(ids)
  const removed = await reapWorktrees(ids)
  const lines = reaped.map((one) => (values.json ? json(one) : describe(one)))
  for (const one of removed) {
    const { id, repository, path } = one.worktree
    const done =
      path === repository ? 'put back the files of an apply that was killed' : 'removed its checkout'
    const how = one.problem === undefined ? done : `cannot be removed: ${one.problem}`
    lines.push(values.json ? json(one) : plainText(`${id}  ${repository}: ${how}`))
  }
  if (lines.length > 0) print(lines.join('\n'))
  else if (!values.json) tell('sheepdog: nothing was left behind')
  const missing = positionals.filter(
    (id) =>
      ![...reaped.map(({ tree }) => tree.id), ...removed.map(({ worktree }) => worktree.id)].includes(id),
  )
  for (const id of missing)
    tell(`sheepdog reap: ${id}: no tree with this id and no checkout, whose host is gone`)
  return missing.length > 0 || reaped.some(({ left }) => left > 0) || removed.some(({ problem }) => problem)
    ? 1
    : 0
}

function describe({ tree, killed, left }: ReapedTree): string {
  const { id, name, command, durationMs, rssBytes, processes } = tree
  const what = `${showCount(killed, 'process', 'processes')} (${showBytes(rssBytes)}) after ${showDuration(durationMs)}`
  const also =
    left > 0 ? `; ${left} could not be ended: ${left === 1 ? 'it runs' : 'they run'} as another user` : ''
  return `${id}  ${name ?? command}: ended ${what}: ${processes.map(({ pid }) => pid).join(' ')}${also}`
}
