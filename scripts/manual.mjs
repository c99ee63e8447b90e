// man/sheepdog.1 and docs/commands.md, made of what the built commands say of themselves. Every command writes the first; it is in
// the package alone. `npm run manual`, which is part of `npm run build`, writes docs/commands.md. A test holds it to be current.
import { createRequire } from 'node:module'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { root } from './step.mjs'

const require = createRequire(import.meta.url)

/** Text of the manual page, by its name. */
export function renderManualPage() {
  const { commands, variables, version } = require('../dist/cli/catalogue.js')
  const { renderManual } = require('../dist/cli/manual.js')
  return { 'man/sheepdog.1': renderManual(commands(), variables, version()) }
}

/** Text of docs/commands.md, by its name. */
function renderCommands() {
  const { commands } = require('../dist/cli/catalogue.js')
  const { renderHelp } = require('../dist/cli/help.js')
  const sections = commands().map(
    (command) => `## sheepdog ${command.name}\n\n\`\`\`text\n${renderHelp(command)}\`\`\`\n`,
  )
  return {
    'docs/commands.md': `# Every command\n\nThis page holds what \`sheepdog help COMMAND\` prints, for every command. The usual ones are explained with examples in [The command](cli.md).\n\n${sections.join('\n')}`,
  }
}

/** The text of each file, by its path. */
export function manuals() {
  const texts = Object.entries({ ...renderManualPage(), ...renderCommands() })
  return Object.fromEntries(texts.map(([name, text]) => [join(root, name), text]))
}

export function writeCommands() {
  for (const [name, text] of Object.entries(renderCommands())) writeFileSync(join(root, name), text)
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) writeCommands()
