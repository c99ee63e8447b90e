// Completions for fish. PURE.
import { allOptions, type Fitting, type NamedCommand } from '../command'

export function fishCompletions(commands: NamedCommand[]): string {
  const lines = commands.flatMap((command) => [
    `complete -c sheepdog -n __fish_use_subcommand -a ${command.name} -d ${quote(command.summary)}`,
    ...optionLines(command),
    ...operandLines(command),
  ])
  const names = commands.map(({ name }) => name).join(' ')
  return `# Completions of sheepdog for fish. Made by \`sheepdog completions fish\`.

# How many words of this command there are that are neither options nor their values.
function __sheepdog_operands
    set -l words (commandline -opc)
    set -e words[1..2]
    set -l seen 0
    set -l skips 0
    for word in $words
        if test $skips -eq 1
            set skips 0
        else if string match -q -- '-*' $word
            contains -- $word $argv; and set skips 1
        else
            set seen (math $seen + 1)
        end
    end
    echo $seen
end

# What follows is another program's: as fish completes that.
function __sheepdog_program
    set -l words (commandline -opc) (commandline -ct)
    set -e words[1..2]
    while set -q words[1]; and string match -q -- '-*' $words[1]
        set -l word $words[1]
        set -e words[1]
        test "$word" = --; and break
        contains -- $word $argv; and set -e words[1]
    end
    complete -C "$words"
end

complete -c sheepdog -f
complete -c sheepdog -n __fish_use_subcommand -s h -l help -d 'what there is'
complete -c sheepdog -n __fish_use_subcommand -s v -l version -d 'the version'
complete -c sheepdog -n __fish_use_subcommand -a help -d 'all of one command'
complete -c sheepdog -n '__fish_seen_subcommand_from help' -a '${names}'
${lines.join('\n')}
`
}

function optionLines(command: NamedCommand): string[] {
  const seen = quote(`__fish_seen_subcommand_from ${command.name}`)
  return allOptions(command).map(([name, option]) => {
    const short = option.short ? ` -s ${option.short}` : ''
    const value = option.type === 'string' ? ` ${required(option.fits)}` : ''
    return `complete -c sheepdog -n ${seen} -l ${name}${short}${value} -d ${quote(option.help)}`
  })
}

function operandLines(command: NamedCommand): string[] {
  const takes = allOptions(command)
    .filter(([, { type }]) => type === 'string')
    .map(([name]) => `--${name}`)
    .join(' ')
  if (command.runsProgram) {
    const seen = quote(`__fish_seen_subcommand_from ${command.name}`)
    return [`complete -c sheepdog -n ${seen} -a ${quote(`(__sheepdog_program ${takes})`)}`]
  }
  return (command.operands ?? []).flatMap(({ fits }, index) => {
    if (!fits) return []
    const at = quote(
      `__fish_seen_subcommand_from ${command.name}; and test (__sheepdog_operands ${takes}) -eq ${index}`,
    )
    const what = typeof fits === 'string' ? '-F' : `-a ${quote(fits.join(' '))}`
    return [`complete -c sheepdog -n ${at} ${what}`]
  })
}

function required(fits: Fitting | undefined): string {
  if (fits === 'file') return '-r -F'
  if (fits === 'folder') return `-x -a ${quote('(__fish_complete_directories)')}`
  if (fits === 'program') return `-x -a ${quote('(__fish_complete_command)')}`
  return fits ? `-x -a ${quote(fits.join(' '))}` : '-x'
}

function quote(text: string): string {
  return `'${text.replace(/['\\]/g, '\\$&')}'`
}
