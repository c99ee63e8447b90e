// The colours of the help: headings and what is typed, as cargo and uv have them.
import { environment } from '../lib/host'

const [heading, typed, value, plain] = ['\u001b[1;32m', '\u001b[1;36m', '\u001b[36m', '\u001b[0m']

/** Whether colours are wanted on this stream. */
export function wantsColour(stream: { isTTY?: boolean }, env: NodeJS.ProcessEnv = environment()): boolean {
  return stream.isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb'
}

/** A help text with its headings, commands, options and examples in colour. Its width stays as it is. */
export function colouredHelp(text: string): string {
  let section = ''
  return text
    .split('\n')
    .map((line) => {
      const usage = /^(Usage:)( sheepdog(?: [a-z]+)?)(.*)$/.exec(line)
      if (usage) return `${heading}${usage[1]}${typed}${usage[2]}${plain}${value}${usage[3]}${plain}`
      if (/^[A-Z][a-z]+:$/.test(line)) {
        section = line
        return `${heading}${line}${plain}`
      }
      if (/^\S/.test(line)) section = ''
      const option = /^( {2})(-[\w, -]*?)((?: [A-Z][A-Z@=]*)?)( {2,}.*)?$/.exec(line)
      if (section === 'Options:' && option)
        return option[1] + typed + option[2] + value + option[3] + plain + (option[4] ?? '')
      const named = /^( {2})([\w-]+)( {2,}.*)$/.exec(line)
      if (/^(Commands|Variables):$/.test(section) && named)
        return named[1] + typed + named[2] + plain + named[3]
      if (section === 'Examples:' && line.startsWith('  ')) return typed + line + plain
      return line
    })
    .join('\n')
}
