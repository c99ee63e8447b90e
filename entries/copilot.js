'use strict'
// The CommonJS entry point of `sheepdog/copilot`. Its values are those of the root.
module.exports = require('../dist/lib/entries/copilot.js')
