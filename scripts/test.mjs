// `npm test`: everything from a fresh clone to the last test. `npm test -- NAME ...` passes filters on to vitest alone.
import { findBrowser } from './browser.mjs'
import { findServer } from './nats-server.mjs'
import { bin, fail, prepare, sideBySide, step } from './setup.mjs'

const filters = process.argv.slice(2)
prepare({ addon: 'any' })
const { server, problem } = findServer()
if (server) process.env.SHEEPDOG_NATS_SERVER = server
else if (process.env.CI) fail(`the fleet's tests need a nats-server: ${problem}`)
else console.warn(`THE FLEET IS NOT TESTED: ${problem}`)
const { browser, problem: noBrowser } = findBrowser()
if (browser) process.env.SHEEPDOG_BROWSER = browser
else if (process.env.CI) fail(`the page needs a browser to be tested in: ${noBrowser}`)
else console.warn(`THE PAGE IS NOT TESTED: ${noBrowser}`)
const vitest = [process.execPath, [bin('vitest'), 'run', ...filters]]
if (filters.length > 0) {
  step('tests of the package', ...vitest)
} else {
  // Both wait more than they compute, and what the core's tests compute first of all is their own build.
  const failed = await sideBySide({
    'tests of the package': vitest,
    'tests of the core': ['nice', ['-n', '5', 'cargo', 'test', '--quiet', '--no-fail-fast']],
  })
  if (failed.length > 0) fail(`${failed.join(' and ')} failed`)
}
