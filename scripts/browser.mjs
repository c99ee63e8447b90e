// The browser that the page of `sheepdog view` is tested in: the one that is named or on PATH, else Debian's own package.
import { spawnSync } from 'node:child_process'

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']

function isBrowser(program) {
  return spawnSync(program, ['--version'], { encoding: 'utf8' }).status === 0
}

/** By its path: whoever starts it does not look on PATH. */
function found() {
  const paths = names.map((name) =>
    spawnSync('sh', ['-c', 'command -v "$1"', 'sh', name], { encoding: 'utf8' }).stdout.trim(),
  )
  return paths.find((path) => path !== '' && isBrowser(path))
}

/** The program, or in one line why there is none. */
export function findBrowser() {
  const named = process.env.SHEEPDOG_BROWSER
  if (named) return isBrowser(named) ? { browser: named } : { problem: `${named} is no browser that starts` }
  const there = found()
  if (there) return { browser: there }
  const isDebian = spawnSync('apt-get', ['--version']).status === 0 && process.getuid?.() === 0
  if (!isDebian)
    return { problem: `none of ${names.join(', ')} is on PATH; SHEEPDOG_BROWSER names another one` }
  const quietly = { stdio: 'ignore', env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } }
  spawnSync('apt-get', ['update'], quietly)
  spawnSync('apt-get', ['install', '-y', '--no-install-recommends', 'chromium'], quietly)
  const installed = found()
  return installed ? { browser: installed } : { problem: 'the package chromium could not be installed' }
}
