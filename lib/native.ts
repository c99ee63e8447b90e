// The one place that loads the addon.
import type * as Native from '../native/native'
import { join } from 'node:path'

export const native: typeof Native = require(join(__dirname, '..', '..', 'native', 'native.js'))

const problem = native.loadingProblem()
if (problem) throw Object.assign(new Error(problem), { code: 'PROCESS_SPAWN_FAILED' })
