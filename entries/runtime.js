'use strict'
// The CommonJS entry point of `sheepdog/runtime`.
module.exports = require('../dist/lib/entries/runtime.js')
