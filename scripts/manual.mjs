// `npm run manual`: man/sheepdog.1, made of what the built commands say of themselves. A test holds it to be current.
import { createRequire } from 'node:module'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { root } from './step.mjs'

const require = createRequire(import.meta.url)

export const manualFile = join(root, 'man', 'sheepdog.1')

export function manual() {
  const { commands, variables, version } = require('../dist/cli/catalogue.js')
  const { renderManual } = require('../dist/cli/manual.js')
  return renderManual(commands(), variables, version())
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  mkdirSync(join(root, 'man'), { recursive: true })
  writeFileSync(manualFile, manual())
  console.log(`written: ${manualFile}`)
}
