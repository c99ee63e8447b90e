'use strict'
// The CommonJS entry point of `sheepdog/copilot`.
module.exports = require('../dist/lib/entries/copilot.js')
