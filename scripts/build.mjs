// `npm run build`: the addon (release; `--debug` for a quick one), the glue, and index.d.ts.
import { parseArgs } from 'node:util'
import { prepare } from './setup.mjs'

const { values } = parseArgs({ options: { debug: { type: 'boolean' } } })
prepare({ addon: values.debug ? 'debug' : 'release' })
const { writeTypes } = await import('./types.mjs')
await writeTypes()
