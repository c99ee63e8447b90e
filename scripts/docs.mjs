// `npm run docs`: the documentation as a static site in site/dist, with every link checked. `-- --serve` shows it on a local port,
// `-- --browser` tests it in a real browser. What it needs is installed in site/ alone, from the lock file there.
import { spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { apiPage, entries } from '../site/api.mjs'
import { checkSite } from '../site/links.mjs'
import { findBrowser } from './browser.mjs'
import { installFrom } from './setup.mjs'
import { bin, fail, root, step } from './step.mjs'

const site = join(root, 'site')

/** npm leaves a copy of what it installed. */
function isInstalled() {
  const installed = join(site, 'node_modules/.package-lock.json')
  if (!existsSync(installed)) return false
  const versions = (file, prefix) =>
    Object.entries(JSON.parse(readFileSync(file, 'utf8')).packages)
      .filter(([name, { optional }]) => name !== '' && !optional)
      .map(([name, { version }]) => `${prefix}${name}@${version}`)
      .sort()
      .join()
  return versions(installed, '') === versions(join(site, 'package-lock.json'), '')
}

if (!isInstalled()) installFrom(site, 'installing what builds the site')

// A copy: the pages resolve what they are made with from the folder that they are in.
const pages = join(site, 'pages')
rmSync(pages, { recursive: true, force: true })
cpSync(join(root, 'docs'), pages, {
  recursive: true,
  filter: (path) => !path.startsWith(join(root, 'docs/internals')),
})

mkdirSync(join(pages, 'api'))
for (const entry of entries) writeFileSync(join(pages, `${entry.page}.md`), apiPage(entry))

const vitepress = join(site, 'node_modules/vitepress/bin/vitepress.js')
step('building the site', process.execPath, [vitepress, 'build', site])

const base = process.env.SHEEPDOG_DOCS_BASE ?? '/'
const { broken, files, links } = checkSite(join(site, 'dist'), base)
for (const link of broken) console.error(link)
if (broken.length > 0) fail(`${broken.length} links of the site lead nowhere`)
console.log(`${files} pages, ${links} links: each leads to a page and a heading of the site, or out of it`)

if (process.argv.includes('--browser')) {
  const { browser, problem } = findBrowser()
  if (!browser) fail(`the site needs a browser to be tested in: ${problem}`)
  const env = { ...process.env, SHEEPDOG_BROWSER: browser, SHEEPDOG_DOCS_SITE: '1' }
  step('the site in a browser', process.execPath, [bin('vitest'), 'run', 'docs-site'], { env })
}

if (process.argv.includes('--serve'))
  spawn(process.execPath, [vitepress, 'preview', site], { stdio: 'inherit' })
