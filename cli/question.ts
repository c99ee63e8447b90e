// The question of an agent that asks for permission, as lines for the person who answers. PURE. What will be done is shown, not
// only what the agent calls it, and no part of it can look like another line of the command.
import type { AgentPermissionRequest } from '../lib/index'
import { json } from './screen'
import { plainText } from './width'

const longest = 4000

/** The lines above the prompt for the answer. */
export function describeQuestion(tool: AgentPermissionRequest['tool']): string[] {
  const { kind, title, name, input, locations } = tool
  const lines = [`${plainText(kind)}: ${plainText(title) || plainText(name ?? '') || '(no title)'}`]
  const command = commandOf(input)
  if (command !== undefined) lines.push(...block('command', command))
  else if (input !== undefined && input !== null) lines.push(...block('input', json(input)))
  for (const { path } of locations ?? []) lines.push(...block('path', path))
  return lines
}

function commandOf(input: unknown): string | undefined {
  const { command, cmd } = (input ?? {}) as { command?: unknown; cmd?: unknown }
  const found = command ?? cmd
  if (typeof found === 'string') return found
  return Array.isArray(found)
    ? found.map((word) => (typeof word === 'string' ? word : json(word))).join(' ')
    : undefined
}

/** Every line of the text, indented, so that none begins like a line of ours. */
function block(label: string, text: string): string[] {
  const shown = text.length > longest ? text.slice(0, longest) : text
  const lines = shown.split(/\r\n|[\n\r\u0085\u2028\u2029]/)
  const left = text.length - shown.length
  if (left > 0) lines.push(`[${left} more characters are not shown]`)
  return lines.map((line, index) => `  ${index === 0 ? `${label}: ` : '| '}${line}`)
}
