// Debian's packages, of any suite and architecture, unpacked into folders of the cache and never installed. An apt with lists of its
// own fetches them, from the servers that this machine's apt knows.
import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fail } from '../../scripts/step.mjs'
import { cache, has, once, quietly } from './cache.mjs'

const KEYS = '/usr/share/keyrings/debian-archive-keyring.gpg'
const ready = new Set()

export function lacksDebian() {
  if (!has('apt-get', '--version') || !has('dpkg-deb', '--version')) return ['apt-get (Debian)']
  return servers().size === 2 ? [] : ["Debian's servers in apt's configuration, security updates included"]
}

/**
 * The folder into which these packages are unpacked.
 * @param {string} name of the folder
 * @param {{suite: string, architecture?: string, packages: string[], closure?: boolean}} options closure: with everything that they
 * depend on
 */
export function unpacked(name, { suite, architecture = 'amd64', packages, closure = false }) {
  return once(name, { suite, architecture, packages, closure }, (folder) => {
    const archives = `${folder}.archives`
    mkdirSync(archives, { recursive: true })
    if (closure) {
      mkdirSync(join(archives, 'partial'), { recursive: true })
      const words = ['install', '--yes', '--no-install-recommends', '--download-only', ...packages]
      apt(suite, architecture, words, ['-o', `Dir::Cache::archives=${archives}`])
    } else apt(suite, architecture, ['download', ...packages], [], { cwd: archives })
    for (const file of readdirSync(archives).filter((name) => name.endsWith('.deb')))
      quietly('dpkg-deb', ['-x', join(archives, file), folder])
    rmSync(archives, { recursive: true })
  })
}

/** The package that a meta package stands for: the kernel of today. */
export function dependency(suite, architecture, meta, pattern) {
  refresh(suite, architecture)
  const text = quietly(
    'apt-cache',
    [...options(suite, architecture), 'depends', '--no-recommends', '--no-suggests', meta],
    {},
  )
  const names = [...text.matchAll(/^ *Depends: (\S+)/gm)].map(([, name]) => name)
  return names.find((name) => pattern.test(name)) ?? fail(`${meta} of ${suite} depends on no ${pattern}`)
}

/** Fetches the lists of a suite, once in a run. */
function refresh(suite, architecture = 'amd64') {
  const key = `${suite}-${architecture}`
  if (ready.has(key)) return
  const folder = join(cache, 'apt', key)
  for (const name of ['lists/partial', 'cache/archives/partial', 'sources'])
    mkdirSync(join(folder, name), { recursive: true })
  writeFileSync(join(folder, 'status'), '')
  const [main, security] = ['Debian', 'Debian-Security'].map((label) => servers().get(label))
  const stanza = (address, name) =>
    `Types: deb\nURIs: ${address}\nSuites: ${name}\nComponents: main\nArchitectures: ${architecture}\nSigned-By: ${KEYS}\n`
  writeFileSync(
    join(folder, 'sources/debian.sources'),
    `${stanza(main, suite)}\n${stanza(security, `${suite}-security`)}`,
  )
  quietly('apt-get', [...options(suite, architecture), 'update'])
  ready.add(key)
}

function apt(suite, architecture, words, more = [], settings = {}) {
  refresh(suite, architecture)
  quietly('apt-get', [...options(suite, architecture), ...more, ...words], settings)
}

function options(suite, architecture) {
  const folder = join(cache, 'apt', `${suite}-${architecture}`)
  const settings = {
    'Dir::Etc::sourcelist': '/dev/null',
    'Dir::Etc::sourceparts': join(folder, 'sources'),
    'Dir::State': folder,
    'Dir::State::lists': join(folder, 'lists'),
    'Dir::State::status': join(folder, 'status'),
    'Dir::Cache': join(folder, 'cache'),
    'APT::Architecture': architecture,
    'APT::Architectures': architecture,
    'APT::Sandbox::User': 'root',
    'Acquire::Languages': 'none',
    'Acquire::IndexTargets::deb::DEP-11::DefaultEnabled': 'false',
    // Otherwise each Debian, and with it libc, would count as wanted.
    'pkgCacheGen::Essential': 'none',
  }
  return Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`])
}

/** Addresses by label, as this machine's apt has them. */
function servers() {
  const format = [
    'indextargets',
    '--format',
    '$(LABEL) $(REPO_URI)',
    'Created-By: Packages',
    'Origin: Debian',
  ]
  const pairs = quietly('apt-get', format).split('\n').filter(Boolean)
  return new Map(pairs.map((pair) => pair.split(' ')))
}
