'use strict'
// The public face: everything that API.md of the package promises, typed in index.d.ts. Made by `npm run build`.
module.exports = require('./dist/lib/index.js')
