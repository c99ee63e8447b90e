// `npm run build`: the addon (release; `--debug` for a quick one), the glue, index.d.ts, and the manual.
import { prepare } from './setup.mjs'

prepare({ addon: process.argv.includes('--debug') ? 'debug' : 'release' })
const { writeTypes } = await import('./types.mjs')
await writeTypes()
const { writeManuals } = await import('./manual.mjs')
writeManuals()
