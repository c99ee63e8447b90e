// The one place that loads the addon. It imports no other file, so that it can say what is wrong in a bundle.
import type * as Native from '../native/native'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { packageVersion } from './version'

const bundled =
  'sheepdog was bundled, and its native addon is not where the bundle is: leave the package out of the bundle ' +
  '(esbuild: --external:sheepdog, webpack: externals: { sheepdog: "commonjs sheepdog" }, vite: ssr.external: ["sheepdog"]) ' +
  'and ship it in node_modules'

export const native: typeof Native = load()

const problem = native.loadingProblem()
if (problem) throw Object.assign(new Error(problem), { code: 'PROCESS_SPAWN_FAILED' })

function load(): typeof Native {
  const loader = join(__dirname, '..', '..', 'native', 'native.js')
  try {
    return require(loader) as typeof Native
  } catch (cause) {
    if (!existsSync(loader)) throw notLoaded(bundled, cause)
    const name = `sheepdog-${process.platform}-${process.arch}${abi()}`
    throw notLoaded(
      `the addon for this platform did not load. It is the package ${name}, an optional dependency of sheepdog: install ` +
        `without --omit=optional, on the platform that it will run on, or add it: npm install ${name}@${packageVersion()}`,
      cause,
    )
  }
}

function notLoaded(message: string, cause: unknown): Error {
  return Object.assign(new Error(message, { cause }), { code: 'ADDON_MISSING' })
}

/** The packages for Linux are one for each C library. That for Windows names the compiler of Node.js. */
function abi(): string {
  if (process.platform === 'win32') return '-msvc'
  if (process.platform !== 'linux') return ''
  const { header } = (process.report?.getReport() ?? {}) as { header?: { glibcVersionRuntime?: string } }
  return header?.glibcVersionRuntime ? '-gnu' : '-musl'
}
