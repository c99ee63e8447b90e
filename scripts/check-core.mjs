// `npm run check:core`: the core stands alone. Copies the tree to target/core, removes the outer rooms that rooms.json lists, builds
// what is left, checks its types and its dependencies, and runs its specs. `-- --keep` leaves the compiled addon for the next time.
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fail, root, step } from './step.mjs'

const rooms = JSON.parse(readFileSync(join(root, 'scripts', 'rooms.json'), 'utf8'))
const { mixed, core } = JSON.parse(readFileSync(join(root, 'scripts', 'core-specs.json'), 'utf8'))
const tree = join(root, 'target', 'core', 'tree')
const target = join(root, 'target', 'core', 'target')
const env = { ...process.env, CARGO_TARGET_DIR: target, CARGO_INCREMENTAL: '0' }

/** Files of the project below some paths, or all. */
function files(paths = []) {
  const words = ['ls-files', '-z', '--cached', '--others', '--exclude-standard', '--', ...paths]
  const { stdout, status } = spawnSync('git', words, { cwd: root, encoding: 'utf8', maxBuffer: 1 << 26 })
  if (status !== 0) fail('the files of the project could not be listed: it has to be a git clone')
  return stdout.split('\0').filter((file) => file !== '' && existsSync(join(root, file)))
}

/** Files of one room. A path that names no file is a fault of the list. */
function filesOf(name) {
  const { rust, lib, cli, specs, pages, scripts } = rooms[name]
  return [rust, lib, cli, specs, pages, scripts].flat().flatMap((path) => {
    const found = files([path])
    if (found.length === 0) fail(`scripts/rooms.json: ${name} names ${path}, which is no file of the project`)
    return found
  })
}

function edit(file, change) {
  const path = join(tree, file)
  const text = readFileSync(path, 'utf8')
  writeFileSync(path, change(text))
}

/** Cargo.toml without the crates of the rooms, whose features stay as names that nothing turns on. */
function withoutCrates(text) {
  const crates = Object.values(rooms).flatMap(({ crate }) => crate ?? [])
  return crates
    .reduce(
      (rest, crate) =>
        rest.replace(new RegExp(`^${crate} = \\{ .*\\n`, 'gm'), '').replaceAll(`"dep:${crate}"`, ''),
      text,
    )
    .replace(/^default = \[.*\]$/m, 'default = []')
}

/** package.json without the entries of the rooms. */
function withoutEntries(text) {
  const description = JSON.parse(text)
  for (const { entry } of Object.values(rooms)) delete description.exports[`./${entry}`]
  return `${JSON.stringify(description, null, 2)}\n`
}

function copyCore() {
  const outer = new Set(Object.keys(rooms).flatMap(filesOf))
  for (const file of files(mixed)) outer.add(file)
  rmSync(tree, { recursive: true, force: true })
  for (const file of files()) {
    if (outer.has(file)) continue
    mkdirSync(dirname(join(tree, file)), { recursive: true })
    cpSync(join(root, file), join(tree, file), { verbatimSymlinks: true })
  }
  symlinkSync(join(root, 'node_modules'), join(tree, 'node_modules'))
  edit('Cargo.toml', withoutCrates)
  edit('package.json', withoutEntries)
  console.log(`> the core: ${files().length} files without ${outer.size} of ${Object.keys(rooms).join(', ')}`)
}

/** None of what only the outer rooms need. */
function checkDependencies() {
  const words = ['tree', '--package', 'sheepdog', '--edges', 'normal', '--prefix', 'none', '--format', '{p}']
  const { stdout, stderr, status } = spawnSync('cargo', words, { cwd: tree, env, encoding: 'utf8' })
  if (status !== 0) fail(`the dependencies of the core could not be listed: ${stderr}`)
  const names = new Set(stdout.split('\n').map((line) => line.split(' ')[0]))
  const left = Object.values(rooms)
    .flatMap(({ brings, crate }) => [...brings, crate ?? []].flat())
    .filter((name) => names.has(name))
  if (left.length > 0) fail(`the core still depends on ${left.join(', ')}`)
  console.log(`> dependencies of the core: ${names.size} crates, none of the outer rooms`)
}

copyCore()
checkDependencies()
const setup = join(tree, 'scripts', 'setup.mjs')
const prepare = `import(${JSON.stringify(setup)}).then(({ prepare }) => prepare({ addon: 'debug' }))`
step('the core: addon, lib and cli', process.execPath, ['--eval', prepare], { cwd: tree, env })
const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc')
step('the core: types of tests', process.execPath, [tsc, '-p', 'tsconfig.check.json'], { cwd: tree, env })
const command = join(tree, 'cli', 'sheepdog.js')
step('the core: its command', process.execPath, [command, '--help'], { cwd: tree, env })
const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs')
step('the core: specs', process.execPath, [vitest, 'run', ...core], { cwd: tree, env })
rmSync(tree, { recursive: true, force: true })
if (!process.argv.includes('--keep')) rmSync(target, { recursive: true, force: true })
