// Completions for bash, with or without the package bash-completion. PURE.
import { allOptions, type Fitting, type NamedCommand } from '../command'

export function bashCompletions(commands: NamedCommand[]): string {
  const names = commands.map(({ name }) => name)
  return `# Completions of sheepdog for bash. Made by \`sheepdog completions bash\`.
_sheepdog() {
  local word=\${COMP_WORDS[COMP_CWORD]} before= command= program= values= operands=() takes index
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    _sheepdog_fit '${[...names, 'help', '--help', '--version'].join(' ')}'
    return
  fi
  command=\${COMP_WORDS[1]}
  if [[ $command == help ]]; then
    _sheepdog_fit '${names.join(' ')}'
    return
  fi
  case $command in
${commands.map(settings).join('\n')}
  *) return ;;
  esac
  # How many operands there are already, and where another program's words begin.
  local seen=0
  for ((index = 2; index < COMP_CWORD; index++)); do
    before=\${COMP_WORDS[index]}
    if [[ $before == -- ]]; then
      [[ -n $program ]] && { _sheepdog_program $((index + 1)); return; }
    elif [[ $before == -* ]]; then
      [[ " $takes " == *" $before "* ]] && ((index++))
    elif [[ $program == first ]]; then
      _sheepdog_program "$index"
      return
    else
      ((seen++))
    fi
  done
  before=\${COMP_WORDS[COMP_CWORD - 1]}
  if [[ " $takes " == *" $before "* ]]; then
    _sheepdog_value "$command $before"
  elif [[ $word == -* ]]; then
    _sheepdog_fit "$values"
  elif ((seen < \${#operands[@]})); then
    _sheepdog_fit "\${operands[seen]}"
  fi
}

_sheepdog_value() {
  case $1 in
${commands.flatMap(values).join('\n')}
  esac
}

# Fills COMPREPLY with what fits: files, folders, programs, or the words themselves. Each line is one: names may have spaces and stars.
_sheepdog_fit() {
  local line how=(-W "$1")
  case $1 in
  file) how=(-f) ;;
  folder) how=(-d) ;;
  program) how=(-c) ;;
  esac
  [[ $1 == file || $1 == folder ]] && compopt -o filenames 2>/dev/null
  while IFS= read -r line; do
    [[ -n $line ]] && COMPREPLY+=("$line")
  done <<<"$(compgen "\${how[@]}" -- "$word")"
}

# The words of another program: as that completes them, where bash-completion is there.
_sheepdog_program() {
  if declare -F _command_offset >/dev/null; then
    _command_offset "$1"
  elif ((COMP_CWORD == $1)); then
    _sheepdog_fit program
  else
    _sheepdog_fit file
  fi
}

complete -F _sheepdog sheepdog
`
}

/** The words of a command, as a case of the function. */
function settings(command: NamedCommand): string {
  const all = allOptions(command)
  const words = all.flatMap(([name, { short }]) => (short ? [`--${name}`, `-${short}`] : [`--${name}`]))
  const takes = all.filter(([, { type }]) => type === 'string').map(([name]) => `--${name}`)
  const operands = (command.operands ?? []).map(({ fits }) => quote(fitWords(fits)))
  // If a word comes before the program's own (exec's URL), only -- says where the program's words begin.
  const program = command.runsProgram ? 'first' : ''
  return `  ${command.name}) values=${quote(words.join(' '))} takes=${quote(takes.join(' '))} program=${program} operands=(${operands.join(' ')}) ;;`
}

function values(command: NamedCommand): string[] {
  return allOptions(command).flatMap(([name, option]) =>
    option.type === 'string' && option.fits
      ? [`  '${command.name} --${name}') _sheepdog_fit ${quote(fitWords(option.fits))} ;;`]
      : [],
  )
}

function fitWords(fits: Fitting | undefined): string {
  return typeof fits === 'string' ? fits : (fits ?? []).join(' ')
}

export function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
