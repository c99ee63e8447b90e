'use strict'
// The CommonJS entry point of `sheepdog/runtime`. Its values are those of the root.
module.exports = require('../dist/lib/entries/runtime.js')
