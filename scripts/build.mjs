// `npm run build`: the addon (release; `--debug` for a quick one), the glue, and index.d.ts.
import { prepare } from './setup.mjs'

prepare({ addon: process.argv.includes('--debug') ? 'debug' : 'release' })
const { writeTypes } = await import('./types.mjs')
await writeTypes()
