'use strict'
// The CommonJS entry point of `sheepdog/fleet`. Its values are those of the root.
module.exports = require('../dist/lib/entries/fleet.js')
