// `npm run build`: the addon (release; `--debug` for a quick one), the glue, and index.d.ts.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { prepare, root } from './setup.mjs'

prepare({ debug: process.argv.includes('--debug') })
const { renderTypes } = await import('./types.mjs')
writeFileSync(join(root, 'index.d.ts'), await renderTypes())
