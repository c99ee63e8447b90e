// sheepdog completions: what a shell needs to complete our command lines.
import { parseArguments, UsageError } from './arguments'
import { commands } from './catalogue'
import type { Ending, NamedCommand, OptionTable } from './command'
import { bashCompletions } from './completions/bash'
import { fishCompletions } from './completions/fish'
import { zshCompletions } from './completions/zsh'
import { put } from './screen'

export const summary = 'print a script for command-line completion'

const shells: Record<string, (commands: NamedCommand[]) => string> = {
  bash: bashCompletions,
  zsh: zshCompletions,
  fish: fishCompletions,
}

export const forms = ['bash | zsh | fish']

export const about = `
Prints a completion script for the named shell: commands, options and their values. Let the shell read it when it
starts.`

export const operands = [{ name: 'SHELL', fits: Object.keys(shells) }] as const

export const options = {} as const satisfies OptionTable

export const examples = [
  'source <(sheepdog completions bash)              # in ~/.bashrc',
  'sheepdog completions zsh > ~/.zfunc/_sheepdog    # a folder of fpath',
  'sheepdog completions fish > ~/.config/fish/completions/sheepdog.fish',
]

export async function run(args: string[]): Promise<Ending> {
  const { positionals } = parseArguments(args, options)
  const [name, ...rest] = positionals
  const shell = name === undefined || !Object.hasOwn(shells, name) ? undefined : shells[name]
  if (!shell || rest.length > 0)
    throw new UsageError(`expected bash, zsh or fish, got ${JSON.stringify(rest[0] ?? name ?? '')}`)
  put('stdout', shell(commands()))
  return 0
}
