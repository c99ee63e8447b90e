// Older kernels, in virtual machines: with this machine's own Node.js, libraries and addon. What each kernel has is compared with the
// table of docs/sandbox.md.
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { root as project } from '../../scripts/step.mjs'
import { has } from './cache.mjs'
import { lacksDebian } from './debian.mjs'
import { kernel, runInMachine } from './machine.mjs'
import { caseCommand, caseOf, placeCases, readCases } from './outcome.mjs'
import { placePackage } from './package.mjs'
import { freshRoot, placeOwnNode } from './root.mjs'

/** @param {string} suite whose kernel it is */
export const kernelPart = (suite, version) => ({
  title: `Linux ${version}`,
  place: 'in a VM',
  how: `in a VM with the kernel of Debian ${suite}`,
  lacks: () => [...lacksDebian(), ...(has('ldd', '--version') ? [] : ['ldd'])],
  async run() {
    const addon = join(project, 'native/sheepdog.linux-x64-gnu.node')
    const root = freshRoot(`root-${suite}`, 'amd64')
    placeOwnNode(root, [addon])
    placePackage(join(root, 'sheepdog'), 'linux-x64-gnu', addon)
    placeCases(root)
    const outcome = readCases(
      await runInMachine({
        image: kernel(suite),
        root,
        command: caseCommand('/sheepdog'),
      }),
    )
    rmSync(root, { recursive: true })
    if (outcome.machine) outcome.cases.push(documented(outcome.machine))
    return outcome
  },
})

/** Compares the kernel with what docs/sandbox.md says about its version. A distribution may have added more. */
function documented({ release, landlock, holds }) {
  const page = readFileSync(join(project, 'docs/sandbox.md'), 'utf8')
  const number = (version) =>
    version
      .split('.')
      .slice(0, 2)
      .reduce((sum, part) => sum * 1000 + parseInt(part), 0)
  const rows = [...page.matchAll(/^\| (\d+\.\d+) \| (\d) \| (.*)\|$/gm)]
    .map(([, since, version, words]) => ({
      since,
      version: Number(version),
      words: words.match(/[a-z-]+/g) ?? [],
    }))
    .filter(({ since }) => number(since) <= number(release))
  const promised = { landlock: rows.at(-1)?.version ?? 0, holds: rows.flatMap(({ words }) => words).sort() }
  const found = { landlock, holds: holds.toSorted() }
  const isSame = JSON.stringify(promised) === JSON.stringify(found)
  const note = isSame ? '' : `promised ${JSON.stringify(promised)}, found ${JSON.stringify(found)}`
  return caseOf({ area: 'sandbox', name: 'the table of docs/sandbox.md', isGood: isSame, note })
}
