// The options of a checkout on a command line. Each of them asks for one.
import type { TurnOptions, WorktreeOptions } from '../lib/index'
import type { ParsedArguments } from './arguments'
import { type OptionTable, flag, setting, several } from './command'

export const checkoutOptions = {
  worktree: flag('let it work in a checkout of its own; your working tree stays as it is'),
  base: setting('COMMIT', 'begin the checkout with this commit (default: your files as they are)'),
  include: several('GLOB', 'copy these ignored files into the checkout, as in .env; may be repeated'),
  setup: setting('COMMAND', 'a line for sh that runs in the checkout before the agent'),
  keep: setting('WHEN', 'keep the checkout to look at: never (default), failure or always', [
    'never',
    'failure',
    'always',
  ]),
  'worktree-dir': setting('FOLDER', 'make the checkout in this folder (default: in your caches)'),
} as const satisfies OptionTable

export function toWorktree(
  values: ParsedArguments<typeof checkoutOptions>['values'],
): TurnOptions['worktree'] {
  const options = {
    base: values.base,
    include: values.include,
    setup: values.setup === undefined ? undefined : (['sh', '-c', values.setup] as const),
    keep: values.keep as WorktreeOptions['keep'],
    dir: values['worktree-dir'],
  }
  return Object.values(options).some((value) => value !== undefined) ? options : values.worktree
}
