// `npm run trial -- view`: the page of `sheepdog view` in a real browser. `-- --screenshots` writes those of docs/ anew.
import { findBrowser } from '../scripts/browser.mjs'
import { bin, fail, prepare, step } from '../scripts/setup.mjs'

prepare({ addon: 'any' })
const { browser, problem } = findBrowser()
if (!browser) fail(`the page needs a browser to be tested in: ${problem}`)
process.env.SHEEPDOG_BROWSER = browser
if (process.argv.includes('--screenshots')) process.env.SHEEPDOG_SCREENSHOTS = '1'
step('the page in a browser', process.execPath, [bin('vitest'), 'run', 'view'])
