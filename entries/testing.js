'use strict'
// The CommonJS entry point of `sheepdog/testing`. Its values are those of the root.
module.exports = require('../dist/lib/entries/testing.js')
