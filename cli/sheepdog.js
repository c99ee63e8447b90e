#!/usr/bin/env node
'use strict'
// The `sheepdog` command. Plain old JavaScript: it must be able to say what is missing where nothing newer runs.
var fs = require('fs')
var path = require('path')

function missing(what) {
  console.error('sheepdog: ' + what)
  process.exit(1)
}

var version = process.versions.node.split('.').map(Number)
if (version[0] < 20 || (version[0] === 20 && version[1] < 17)) {
  missing('Node.js 20.17 or newer is needed, this is ' + process.versions.node)
}
var main = path.join(__dirname, '..', 'dist', 'cli', 'main.js')
if (!fs.existsSync(main)) missing('not built yet: run `npm run build` in ' + path.dirname(__dirname))

require(main).main(process.argv.slice(2))
