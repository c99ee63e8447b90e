// The help of a command, made of what it says of itself. PURE.
import { allOptions, written, type Command, type NamedCommand } from './command'

const columns = 80
const gap = 2
const mostOptionColumns = 24

/** All of one command; begins with "Usage: sheepdog". */
export function renderHelp(command: NamedCommand): string {
  const [first, ...others] = command.forms.map((form) => `sheepdog ${command.name} ${form}`.trimEnd())
  const parts = [
    [`Usage: ${first}`, ...others.map((form) => `       ${form}`)].join('\n'),
    reflow(command.about),
    `Options:\n${renderOptions(command)}`,
  ]
  if (command.notes) parts.push(reflow(command.notes))
  if (command.examples) parts.push(`Examples:\n${command.examples.map((line) => `  ${line}`).join('\n')}`)
  return `${parts.join('\n\n')}\n`
}

function renderOptions(command: Command): string {
  const rows = allOptions(command).map(([name, option]) => [written(name, option), option.help] as const)
  const widest = Math.max(...rows.map(([left]) => left.length).filter((width) => width <= mostOptionColumns))
  const indent = ' '.repeat(gap + widest + gap)
  return rows
    .map(([left, help]) => {
      const lines = wrap(help, columns - indent.length)
      const head = `  ${left}`
      // One that is too long has its help below.
      const text = lines.map((line) => `${indent}${line}`).join('\n')
      return left.length > widest ? `${head}\n${text}` : head + text.slice(head.length)
    })
    .join('\n')
}

/** Paragraphs, each broken anew; one whose lines are indented is left as it is, as tables are. */
export function reflow(text: string, width = columns): string {
  return text
    .trim()
    .split('\n\n')
    .map((paragraph) => (isTable(paragraph) ? paragraph : wrap(paragraph, width).join('\n')))
    .join('\n\n')
}

/** Whether columns of this paragraph stand below each other. */
export function isTable(paragraph: string): boolean {
  return /\S {2,}\S/.test(paragraph)
}

/** Lines of at most so many columns. */
export function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  let line = ''
  for (const word of text.trim().split(/\s+/)) {
    if (line && line.length + 1 + word.length > width) {
      lines.push(line)
      line = word
    } else line = line ? `${line} ${word}` : word
  }
  return [...lines, line]
}
