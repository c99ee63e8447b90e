// `npm run manual`, and part of `npm run build`: man/sheepdog.1 and docs/commands.md, made of what the built commands say of
// themselves. A test holds both to be current.
import { createRequire } from 'node:module'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { root } from './step.mjs'

const require = createRequire(import.meta.url)

/** The text of each file, by its path. */
export function manuals() {
  const { commands, variables, version } = require('../dist/cli/catalogue.js')
  const { renderManual } = require('../dist/cli/manual.js')
  const { renderHelp } = require('../dist/cli/help.js')
  const sections = commands().map(
    (command) => `## sheepdog ${command.name}\n\n\`\`\`text\n${renderHelp(command)}\`\`\`\n`,
  )
  return {
    [join(root, 'man', 'sheepdog.1')]: renderManual(commands(), variables, version()),
    [join(root, 'docs', 'commands.md')]:
      `# Every command\n\nThis page holds what \`sheepdog help COMMAND\` prints, for every command. The usual ones are explained with examples in [The command](cli.md).\n\n${sections.join('\n')}`,
  }
}

export function writeManuals() {
  for (const [file, text] of Object.entries(manuals())) {
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) writeManuals()
