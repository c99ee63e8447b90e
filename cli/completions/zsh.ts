// Completions for zsh: a function for a folder of fpath. PURE.
import { quote } from './bash'
import { allOptions, type Fitting, type NamedCommand, type Option } from '../command'

export function zshCompletions(commands: NamedCommand[]): string {
  return `#compdef sheepdog
# Completions of sheepdog for zsh. Made by \`sheepdog completions zsh\`.
_sheepdog() {
  local curcontext=$curcontext state line
  local -a commands=(
${commands.map(({ name, summary }) => `    ${quote(`${name}:${summary}`)}`).join('\n')}
    'help:all of one command'
  )
  _arguments -C '(-)'{-h,--help}'[what there is]' '(-)'{-v,--version}'[the version]' '1: :->command' '*:: :->words'
  case $state in
  command) _describe -t commands command commands ;;
  words)
    case $words[1] in
${commands.map(words).join('\n')}
    help) _describe -t commands command commands ;;
    esac
    ;;
  esac
}

# Read from fpath it is called, read by \`source\` it is registered.
if [[ $funcstack[1] == _sheepdog ]]; then _sheepdog "$@"; else compdef _sheepdog sheepdog; fi
`
}

function words(command: NamedCommand): string {
  const specs = allOptions(command).flatMap(([name, option]) => specsOf(name, option))
  const operands = (command.operands ?? []).filter(({ fits }) => fits !== 'program')
  const positions = operands.map(({ name, fits }) => quote(`:${name}:${action(fits)}`))
  // The words after this one belong to another program.
  if (command.runsProgram) positions.push(quote('*:::program:_normal'))
  return `    ${command.name}) _arguments -S ${[...specs, ...positions].join(' ')} ;;`
}

function specsOf(name: string, option: Option): string[] {
  const repeats = option.type === 'string' && option.multiple
  const help = `[${escape(option.help)}]`
  const value = option.type === 'string' ? `:${escape(option.value)}:${action(option.fits)}` : ''
  const all = [`--${name}`, ...(option.short ? [`-${option.short}`] : [])]
  // Once is enough, in either form.
  const others = repeats ? '*' : all.length > 1 ? `(${all.join(' ')})` : ''
  return all.map((word) => quote(`${others}${word}${help}${value}`))
}

function action(fits: Fitting | undefined): string {
  if (fits === 'file') return '_files'
  if (fits === 'folder') return '_files -/'
  if (fits === 'program') return '_command_names -e'
  return fits ? `(${fits.join(' ')})` : ' '
}

function escape(text: string): string {
  return text.replace(/[\\[\]:]/g, '\\$&')
}
