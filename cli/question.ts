// The question of an agent that asks for permission, as lines for the person who answers. PURE. What will be done is shown, not
// only what the agent calls it. Nothing of it is hidden, and no part of it can look like another line of the command.
import type { PermissionRequest } from '../lib/index'
import { json, visible } from './screen'
import { displayWidth, fitWidth, plainText } from './width'

const longest = 4000
const usualColumns = 80

/** The lines above the prompt for the answer; the terminal wraps none of them. */
export function describeQuestion(tool: PermissionRequest['tool'], columns = usualColumns): string[] {
  const { kind, title, name, input, locations } = tool
  const width = Math.max(20, columns - 1)
  const block = (label: string, text: string) => blockOf(label, text, width)
  const heading = `${plainText(kind)}: ${plainText(title) || plainText(name ?? '') || '(no title)'}`
  const lines = [fitWidth(heading, width)]
  const asked = commandOf(input)
  if (asked) {
    lines.push(...block('command', asked.command))
    if (Object.keys(asked.rest).length > 0) lines.push(...block('with', json(asked.rest)))
  } else if (input !== undefined && input !== null) lines.push(...block('input', json(input)))
  for (const { path } of locations ?? []) lines.push(...block('path', path))
  return lines
}

/** The command as a shell would be given it, and the other fields: they may change what it does. */
function commandOf(input: unknown): { command: string; rest: object } | undefined {
  if (typeof input !== 'object' || input === null) return undefined
  for (const field of ['command', 'cmd']) {
    const { [field]: found, ...rest } = input as Record<string, unknown>
    if (typeof found === 'string') return { command: found, rest }
    if (Array.isArray(found)) return { command: found.map(word).join(' '), rest }
  }
  return undefined
}

/** A word of a command, quoted where its ends could not be seen. */
function word(value: unknown): string {
  return typeof value === 'string' && /^[\w@%+=:,./-]+$/.test(value) ? value : json(value)
}

/**
 * Every line of the text, indented, so that none begins like a line of the command. `|` begins a further line of the text, `+` the
 * rest of a line that is wider than the terminal.
 */
function blockOf(label: string, text: string, width: number): string[] {
  const shown = text.length > longest ? text.slice(0, longest) : text
  const texts = shown.split(/\r\n|[\n\r\u0085\u2028\u2029]/).map(visible)
  const left = text.length - shown.length
  if (left > 0) texts.push(`[${left} more characters are not shown]`)
  return texts.flatMap((line, index) => {
    const first = `  ${index === 0 ? `${label}: ` : '| '}`
    return wrapped(line, width - first.length, width - 4).map((piece, at) =>
      at === 0 ? `${first}${piece}` : `  + ${piece}`,
    )
  })
}

/** The line in pieces of at most so many columns. */
function wrapped(line: string, firstColumns: number, columns: number): string[] {
  const pieces: string[] = []
  let piece = ''
  let left = firstColumns
  for (const character of line) {
    const width = displayWidth(character)
    if (width > left) {
      pieces.push(piece)
      piece = ''
      left = columns
    }
    piece += character
    left -= width
  }
  return [...pieces, piece]
}
