// The manual page of the command, in the language of man(7). PURE.
import { allOptions, written, type NamedCommand } from './command'
import { isTable, wrap } from './help'

/** Width that mandoc's own checks ask for. */
const columns = 78

/** The page sheepdog(1). */
export function renderManual(
  commands: NamedCommand[],
  variables: [name: string, help: string][],
  version: string,
): string {
  return [
    `.\\" Made of what the commands say of themselves. Do not edit.`,
    `.TH SHEEPDOG 1 "" "sheepdog ${version}"`,
    '.SH NAME',
    'sheepdog \\- runs coding agents and other programs under supervision',
    '.SH SYNOPSIS',
    ...commands
      .flatMap(({ name, forms }) => forms.flatMap((form) => ['.br', `.B sheepdog ${name}`, escape(form)]))
      .slice(1),
    '.SH DESCRIPTION',
    ...prose(
      'Starts programs and coding agents and supervises them. A program that hangs is ended, and no process is left behind. Results go to standard output, messages to standard error.',
    ),
    '.SH COMMANDS',
    ...commands.flatMap(section),
    '.SH ENVIRONMENT',
    ...variables.flatMap(([name, help]) => ['.TP', `.B ${name}`, ...filled(help)]),
    '',
  ].join('\n')
}

function section(command: NamedCommand): string[] {
  const { name, summary, about, notes, examples } = command
  return [
    `.SS sheepdog ${name} \\(en ${escape(summary)}`,
    ...prose(about),
    ...allOptions(command)
      .filter(([option]) => option !== 'help')
      .flatMap(([option, details]) => [
        '.TP',
        `.B ${escape(written(option, details))}`,
        ...filled(details.help),
      ]),
    ...(notes ? ['.PP', ...prose(notes)] : []),
    ...(examples ? ['.PP', ...literal(examples)] : []),
  ]
}

function prose(text: string): string[] {
  return text
    .trim()
    .split('\n\n')
    .flatMap((paragraph, index) => {
      const lines = paragraph.split('\n')
      const body = isTable(paragraph) ? literal(lines) : filled(paragraph)
      return index === 0 ? body : ['.PP', ...body]
    })
}

/** Text that is broken anew. */
function filled(text: string): string[] {
  return wrap(text, columns).map(escape)
}

function literal(lines: readonly string[]): string[] {
  return ['.RS', '.nf', ...lines.map(escape), '.fi', '.RE']
}

/** A dash is a dash that can be typed; a line that begins with a dot or a quote is text. */
function escape(text: string): string {
  return text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replace(/^(?=[.'])/, '\\&')
}
