// Joins the modules of lib/ into two files, because finding, reading and compiling more than a hundred takes most of the time of
// `require('sheepdog')`: dist/lib/library.js has what the root needs, dist/lib/rooms.js the rest, which is read when an entry asks
// for it. Each module keeps a file of its own name, which hands out the same exports.
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, posix, relative, sep } from 'node:path'
import { root } from './step.mjs'

/** The output of tsc: a file for each source. */
const compiled = join(root, 'dist/.modules')
const target = join(root, 'dist')

/** The scripts in a folder of `base`, by their path from there. */
function filesOf(base, folder) {
  if (!existsSync(join(base, folder))) return []
  return readdirSync(join(base, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.js'))
    .map((entry) => relative(base, join(entry.parentPath, entry.name)).replaceAll(sep, '/'))
    .sort()
}

/** The code, with what it requires of lib/ taken from the library by `load`, a name that no module has. */
function linked(name, code, load) {
  return code.replace(/\brequire\("(\.\.?\/[^"]+)"\)/g, (whole, wanted) => {
    const found = posix.join(posix.dirname(name), wanted)
    return found.startsWith('lib/') ? `${load}("${found.slice('lib/'.length)}")` : whole
  })
}

/** A file that stays the same is not written: a program may be running from it. */
function write(name, text) {
  const file = join(target, name)
  if (existsSync(file) && readFileSync(file, 'utf8') === text) return
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}

export function joinModules() {
  const read = (name) => readFileSync(join(compiled, name), 'utf8')
  const [library, commands] = [filesOf(compiled, 'lib'), filesOf(compiled, 'cli')]
  const wanted = new Set([...library, ...commands, 'lib/library.js', 'lib/rooms.js'])
  for (const name of [...filesOf(target, 'lib'), ...filesOf(target, 'cli')])
    if (!wanted.has(name) && !name.includes('/vendor/')) rmSync(join(target, name))
  const modules = new Map()
  for (const name of library) {
    const own = name.slice('lib/'.length, -'.js'.length)
    const up = '../'.repeat(own.split('/').length - 1) || './'
    write(name, `module.exports = require("${up}library.js")("${own}");\n`)
    modules.set(own, linked(name, read(name), 'libraryModule'))
  }
  const ofRoot = new Set(['index'])
  for (const own of ofRoot)
    for (const [, needed] of modules.get(own).matchAll(/\blibraryModule\("([^"]+)"\)/g)) ofRoot.add(needed)
  const table = (isIn) => `{
__proto__: null,
${[...modules]
  .filter(([own]) => isIn(own))
  // In parentheses, because V8 then compiles a function at once rather than twice.
  .map(([own, code]) => `"${own}": (function (exports, module) {${code}\n}),\n`)
  .join('')}}`
  write(
    'lib/library.js',
    `"use strict";
const loaded = Object.create(null);
function libraryModule(name) {
    const known = loaded[name];
    if (known) return known.exports;
    const module = (loaded[name] = { exports: {} });
    try {
        (modules[name] ?? require("./rooms.js")[name]).call(module.exports, module.exports, module);
    } catch (error) {
        delete loaded[name];
        throw error;
    }
    return module.exports;
}
module.exports = libraryModule;
const modules = ${table((own) => ofRoot.has(own))};
`,
  )
  write(
    'lib/rooms.js',
    `"use strict";
const libraryModule = require("./library.js");
module.exports = ${table((own) => !ofRoot.has(own))};
`,
  )
  for (const name of commands) {
    const up = '../'.repeat(name.split('/').length - 1)
    write(name, linked(name, read(name), `require("${up}lib/library.js")`))
  }
}
