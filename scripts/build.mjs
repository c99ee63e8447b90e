// `npm run build`: the addon (release; `--debug` for a quick one), the glue, index.d.ts, and docs/commands.md.
import { parseArgs } from 'node:util'
import { prepare } from './setup.mjs'

const { values } = parseArgs({ options: { debug: { type: 'boolean' } } })
prepare({ addon: values.debug ? 'debug' : 'release' })
const { writeTypes } = await import('./types.mjs')
await writeTypes()
const { writeCommands } = await import('./manual.mjs')
writeCommands()
