'use strict'
// The CommonJS entry point of `sheepdog/testing`.
module.exports = require('../dist/lib/entries/testing.js')
