// man/sheepdog.1, made of what the built commands say of themselves. Every command writes it; it is in the package alone.
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)

/** Text of the manual page, by its name. */
export function renderManualPage() {
  const { commands, variables, version } = require('../dist/cli/catalogue.js')
  const { renderManual } = require('../dist/cli/manual.js')
  return { 'man/sheepdog.1': renderManual(commands(), variables, version()) }
}
