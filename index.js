'use strict'
// The CommonJS entry point; index.d.ts has its types. `npm run build` makes dist from lib/.
module.exports = require('./dist/lib/index.js')
