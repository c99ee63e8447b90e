// `npm run reference [FOLDER]`: the API as pages, one for each capability, made of index.d.ts: what is exported, with its
// documentation. Not committed: it says again what the types say.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'
import { root } from './step.mjs'

// The last TypeScript that is written in JavaScript: a program can ask it.
const typescript = createRequire(import.meta.url)('@typescript/typescript6')
const folder = resolve(process.argv[2] ?? join(root, 'target', 'reference'))

/** Which page an export is on: the first room of lib/ whose files declare it. */
const rooms = {
  process: ['process.ts', 'process', 'sandbox.ts', 'limit.ts'],
  harness: ['harness.ts', 'harness', 'record.ts', 'record'],
  copilot: ['copilot.ts', 'copilot'],
  runtime: ['runtime.ts', 'runtime'],
  model: ['model.ts', 'usage.ts'],
  fleet: ['fleet.ts', 'fleet'],
  observability: ['observability'],
  errors: ['error.ts', 'error-facts.ts'],
}

const declared = new Map()
for (const [room, places] of Object.entries(rooms)) {
  for (const file of places.flatMap(filesOf)) {
    const names = readFileSync(file, 'utf8').matchAll(
      /^export (?:declare |async |abstract )*(?:function|class|interface|type|const) (\w+)/gm,
    )
    for (const [, name] of names) if (!declared.has(name)) declared.set(name, room)
  }
}

const types = join(root, 'index.d.ts')
const program = typescript.createProgram([types], { target: typescript.ScriptTarget.ES2022, types: ['node'] })
const checker = program.getTypeChecker()
const source = program.getSourceFile(types)
const pages = new Map()
for (const symbol of checker.getExportsOfModule(checker.getSymbolAtLocation(source))) {
  const own = symbol.flags & typescript.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
  // What lib/index.ts gives another name is of the sessions.
  const room = declared.get(symbol.name) ?? declared.get(own.name) ?? 'harness'
  const entries = pages.get(room) ?? pages.set(room, []).get(room)
  entries.push({ name: symbol.name, text: describe(symbol.name, own), isValue: isValue(own) })
}

rmSync(folder, { recursive: true, force: true })
mkdirSync(folder, { recursive: true })
let count = 0
for (const [room, entries] of pages) {
  // What can be called first, then the types; each in the order of the alphabet.
  entries.sort((left, right) => right.isValue - left.isValue || left.name.localeCompare(right.name))
  count += entries.length
  writeFileSync(join(folder, `${room}.md`), `# ${room}\n\n${entries.map(({ text }) => text).join('\n')}`)
}
const list = [...pages].map(([room, entries]) => `- [${room}](${room}.md): ${entries.length} names`)
writeFileSync(join(folder, 'README.md'), `# API reference\n\n${list.join('\n')}\n`)
console.log(`${count} names on ${pages.size} pages in ${folder}`)

function filesOf(place) {
  const path = join(root, 'lib', place)
  if (place.endsWith('.ts')) return existing(path) ? [path] : []
  if (!existing(path)) return []
  return readdirSync(path, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .map((file) => join(path, file))
}

function existing(path) {
  try {
    readdirSync(path)
    return true
  } catch (error) {
    return error.code === 'ENOTDIR'
  }
}

function isValue(symbol) {
  return (symbol.flags & typescript.SymbolFlags.Value) !== 0
}

function describe(name, symbol) {
  const about = typescript.displayPartsToString(symbol.getDocumentationComment(checker))
  const code = (symbol.declarations ?? []).map(textOf).join('\n')
  return `## ${name}\n\n${about ? `${about}\n\n` : ''}\`\`\`ts\n${code}\n\`\`\`\n`
}

/** A declaration without what is nobody's business: private members, and what is marked internal. */
function textOf(declaration) {
  const whole = declaration.getText().replace(/^export /, '')
  const hidden = (declaration.members ?? []).filter(
    (member) =>
      member.name?.kind === typescript.SyntaxKind.PrivateIdentifier ||
      typescript.getJSDocTags(member).some(({ tagName }) => tagName.text === 'internal'),
  )
  return hidden.reduce((text, member) => text.replace(`${member.getFullText()}`, ''), whole)
}
