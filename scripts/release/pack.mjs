// `npm run release:pack -- [--all] [FOLDER]`: the tarballs that are published, the main package naming those of the platforms.
// A platform whose addon was not built (npm/<platform>/*.node) is told, and packed by nobody; with --all it is an error.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { writeGenerated } from '../generated.mjs'
import { fail, root, step } from '../step.mjs'

for (const file of ['dist/lib/index.js', 'dist/cli/main.js', 'native/native.js'])
  if (!existsSync(join(root, file)))
    fail(`${file} is missing, which the main package needs: run \`npm run build:debug\` first`)

const words = process.argv.slice(2)
const needsAll = words.includes('--all')
const folder = resolve(words.find((word) => !word.startsWith('-')) ?? join(root, 'target', 'packages'))
const staged = join(folder, 'sheepdog')
rmSync(folder, { recursive: true, force: true })
mkdirSync(staged, { recursive: true })

const main = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
const optionalDependencies = {}
for (const platform of readdirSync(join(root, 'npm'))) {
  const source = join(root, 'npm', platform)
  const own = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8'))
  // One version for all: an addon of another does not fit the glue.
  optionalDependencies[own.name] = main.version
  if (!existsSync(join(source, own.main))) {
    if (needsAll) fail(`no addon in npm/${platform}`)
    console.warn(`no addon in npm/${platform}: its package is not packed`)
    continue
  }
  const target = join(folder, own.name)
  cpSync(source, target, { recursive: true })
  const { homepage, bugs, repository } = main
  const full = { ...own, version: main.version, homepage, bugs, repository }
  writeFileSync(join(target, 'package.json'), `${JSON.stringify(full, null, 2)}\n`)
  cpSync(join(root, 'LICENSE'), join(target, 'LICENSE'))
  step(`packing ${own.name}`, 'npm', ['pack', '--silent', '--pack-destination', folder], { cwd: target })
}

writeGenerated()
for (const file of ['README.md', 'LICENSE', ...main.files.filter((file) => !/[*!]/.test(file))]) {
  if (!existsSync(join(root, file))) fail(`${file} is missing: run \`npm run build\` first`)
  cpSync(join(root, file), join(staged, file), { recursive: true })
}
// The comments of the pages name tests and generators, which are not in the package.
for (const page of readdirSync(join(staged, 'docs'), { recursive: true }).filter((name) =>
  name.endsWith('.md'),
)) {
  const file = join(staged, 'docs', page)
  const text = readFileSync(file, 'utf8')
  // Lines that hold nothing else go as a whole: an empty line would end a list.
  writeFileSync(file, text.replace(/^[ \t]*(<!--.*?-->[ \t]*)+\n/gms, '').replace(/[ \t]*<!--.*?-->/gs, ''))
}
cpSync(join(root, 'native/native.js'), join(staged, 'native/native.js'))
const { devDependencies: _, scripts: __, ...published } = main
const text = `${JSON.stringify({ ...published, optionalDependencies }, null, 2)}\n`
writeFileSync(join(staged, 'package.json'), text)
step('packing sheepdog', 'npm', ['pack', '--silent', '--pack-destination', folder], { cwd: staged })
console.log(`packed into ${folder}`)
