'use strict'
// The CommonJS entry point of `sheepdog/model`.
module.exports = require('../dist/lib/entries/model.js')
