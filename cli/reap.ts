// sheepdog reap: ends what hosts that are gone left behind.
import { reapTrees, type ReapedTree } from '../lib/index'
import { parseArguments } from './arguments'
import type { Ending, OptionTable } from './command'
import { showBytes, showCount, showDuration } from './figure'
import { json, print, tell } from './screen'

export const summary = 'end what dead hosts left behind'

export const forms = ['[ID ...] [--json]']

export const about = `
Ends the trees of this user whose host is gone ("left" in sheepdog ps), all or those with these ids, and says what it
ended. It does not touch what a living host runs or keeps, nor what belongs to another container.`

export const operands = [{ name: 'ID' }] as const

export const options = {
  json: { type: 'boolean', help: 'print JSON lines: one for each tree' },
} as const satisfies OptionTable

export const notes = `
Exit status: 0, or 1 if a tree could not be ended.`

export const examples = ['sheepdog reap', 'sheepdog reap b07de5c2913f6a4e']

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals } = parseArguments(args, options)
  const reaped = await reapTrees(positionals.length > 0 ? positionals : undefined)
  const lines = reaped.map((one) => (values.json ? json(one) : describe(one)))
  if (lines.length > 0) print(lines.join('\n'))
  else if (!values.json) tell('sheepdog: nothing was left behind')
  const missing = positionals.filter((id) => !reaped.some(({ tree }) => tree.id === id))
  for (const id of missing) tell(`sheepdog reap: ${id}: no tree with this id whose host is gone`)
  return missing.length > 0 || reaped.some(({ left }) => left > 0) ? 1 : 0
}

function describe({ tree, killed, left }: ReapedTree): string {
  const { id, name, command, durationMs, rssBytes, processes } = tree
  const what = `${showCount(killed, 'process', 'processes')} (${showBytes(rssBytes)}) after ${showDuration(durationMs)}`
  const also =
    left > 0 ? `; ${left} could not be ended: ${left === 1 ? 'it runs' : 'they run'} as another user` : ''
  return `${id}  ${name ?? command}: ended ${what}: ${processes.map(({ pid }) => pid).join(' ')}${also}`
}
