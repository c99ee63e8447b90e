'use strict'
// The CommonJS entry point of `sheepdog/fleet`.
module.exports = require('../dist/lib/entries/fleet.js')
