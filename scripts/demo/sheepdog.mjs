// The built package and the parts of its command that the demo shares.
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)

export const { spawn } = require('../../index.js')
export const { watch } = require('../../dist/cli/watch.js')
export const { leaveBy, onInterrupt } = require('../../dist/cli/interrupt.js')
export const { LiveLine, liveState } = require('../../dist/cli/live.js')
export const { plainText, fitWidth, displayWidth } = require('../../dist/cli/width.js')
export const { showBytes, showCount, showDuration } = require('../../dist/cli/figure.js')
