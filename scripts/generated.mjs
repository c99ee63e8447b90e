// Files that the package has and the repository does not, because they are made from others in a moment: index.mjs and those of the
// other entry points, copilot-protocol.d.ts, and the manual page. `prepare()` writes them, so that they are there after any command.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { renderAllEsm } from './esm.mjs'
import { renderManualPage } from './manual.mjs'
import { renderProtocol } from './protocol.mjs'
import { root } from './step.mjs'

export function writeGenerated() {
  const files = { ...renderAllEsm(), ...renderProtocol(), ...renderManualPage() }
  for (const [name, text] of Object.entries(files)) {
    const file = join(root, name)
    // A file that stays the same keeps its time: nothing is made again from it.
    if (existsSync(file) && readFileSync(file, 'utf8') === text) continue
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
}

// A process of its own: what builds the addon must not have it loaded.
if (import.meta.url === pathToFileURL(process.argv[1]).href) writeGenerated()
