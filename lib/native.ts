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
    const failures = failuresOf(cause)
    const advice = failures.every(isMissing)
      ? `It is the package ${name}, an optional dependency of sheepdog: install without --omit=optional, on the platform that it ` +
        `will run on, or add it: npm install ${name}@${packageVersion()}`
      : `Possible causes: Node.js may not load addons (--no-addons, or the permission model without --allow-addons), the C library ` +
        `is older than the addon needs, or the package ${name} is not whole`
    const words = failures.map(({ message }) => message.split('\n')[0]).join('; ')
    throw notLoaded(`the addon for this platform did not load: ${words}. ${advice}`, cause)
  }
}

/** Why the addon was not loaded from each of the places where it can be. A place without it says less than one whose file failed. */
function failuresOf(cause: unknown): NodeJS.ErrnoException[] {
  const all: NodeJS.ErrnoException[] = []
  for (let error = cause; error instanceof Error && all.length < 9; error = error.cause) all.unshift(error)
  // The loader also looks for a build for WebAssembly, which there is none of.
  const known = all.filter(({ message }) => !/^Cannot find native binding|wasi/.test(message))
  const failed = known.filter((error) => !isMissing(error))
  return failed.length > 0 ? failed : known.slice(0, 1)
}

function isMissing({ code, message }: NodeJS.ErrnoException): boolean {
  return code === 'MODULE_NOT_FOUND' || message.startsWith('Cannot find module')
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
