// `npm test`: everything from a fresh clone to the last test. `npm test -- NAME ...` passes filters on to vitest alone.
import { bin, prepare, step } from './setup.mjs'

const filters = process.argv.slice(2)
prepare({ addon: 'any' })
if (filters.length === 0) step('tests of the core', 'cargo', ['test', '--quiet'])
step('tests of the package', bin('vitest'), ['run', ...filters])
