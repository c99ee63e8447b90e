// The documentation as a site: its checker of links, and, after `npm run docs -- --browser`, the built site in a real browser.
// SHEEPDOG_SCREENSHOTS names a folder for pictures of it.
import { mkdirSync, mkdtempSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium, type Browser, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { entries } from '../site/api.mjs'
import { contents } from '../site/contents.mjs'
import { checkSite, fileOf } from '../site/links.mjs'
import { root } from './documents-blocks'

describe('the checker of links', () => {
  const folder = mkdtempSync(join(tmpdir(), 'docs-site-'))
  mkdirSync(join(folder, 'tasks'))
  const write = (name: string, html: string) => writeFileSync(join(folder, name), html)

  it('finds pages and headings, in and below the folder of a page', () => {
    write('index.html', '<a href="/base/tasks/a#x-y">a</a> <a href="https://elsewhere.example/b">b</a>')
    write(
      'tasks/a.html',
      '<h2 id="x-y">X</h2> <a href="./../#top">b</a> <a href="#x-y">c</a> <i id="top"></i>',
    )
    expect(checkSite(folder, '/base/').broken).toEqual(['tasks/a.html: ./../#top'])
    write('index.html', '<i id="top"></i> <a href="/base/tasks/a#x-y">a</a>')
    expect(checkSite(folder, '/base/')).toEqual({ broken: [], files: 2, links: 3 })
  })

  it('names what leads nowhere, and what leads out of the base', () => {
    write(
      'index.html',
      '<a href="/base/b">a</a> <a href="/tasks/a">b</a> <a id="top" href="/base/tasks/a#z">c</a>',
    )
    expect(checkSite(folder, '/base/').broken).toEqual([
      'index.html: /base/b',
      'index.html: /tasks/a',
      'index.html: /base/tasks/a#z',
    ])
  })
})

const executablePath = process.env.SHEEPDOG_BROWSER
const pictures = process.env.SHEEPDOG_SCREENSHOTS
const dist = join(root, 'site/dist')

describe.runIf(executablePath && process.env.SHEEPDOG_DOCS_SITE)('the site', () => {
  let server: Server
  let browser: Browser
  let url: string

  beforeAll(async () => {
    const types = {
      html: 'text/html',
      js: 'text/javascript',
      css: 'text/css',
      svg: 'image/svg+xml',
      png: 'image/png',
    }
    server = createServer((request, response) => {
      const path = decodeURIComponent(new URL(request.url!, 'http://site').pathname).slice(1)
      const file = fileOf(dist, path || 'index.html')
      if (!file) return response.writeHead(404).end()
      const type = types[file.slice(file.lastIndexOf('.') + 1) as keyof typeof types] ?? 'font/woff2'
      response.writeHead(200, { 'content-type': type, 'content-length': statSync(file).size })
      response.end(readFileSync(file))
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    browser = await chromium.launch({ executablePath: executablePath!, args: ['--no-sandbox'] })
  })
  afterAll(async () => {
    await browser?.close()
    server?.close()
  })

  async function open(path: string, options: object = {}): Promise<Page> {
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, ...options })
    page.on('pageerror', (error) => expect.fail(`in the page: ${error.message}`))
    page.on('console', (message) => {
      if (message.type() === 'error') expect.fail(`in the page: ${message.text()}`)
    })
    await page.goto(`${url}/${path}`, { waitUntil: 'networkidle' })
    return page
  }

  async function axeFaults(page: Page): Promise<string[]> {
    await page.addScriptTag({ path: createRequire(import.meta.url).resolve('axe-core/axe.min.js') })
    const { violations } = (await page.evaluate('axe.run()')) as {
      violations: { id: string; nodes: { target: string[] }[] }[]
    }
    return violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id}: ${target.join(' ')}`))
  }

  it('has every page of the contents at its side', async () => {
    const page = await open('')
    const links = await page.locator('.VPSidebar a').count()
    expect(links).toBe(contents().flatMap(({ items }) => items).length + entries.length)
    await page.locator('.VPSidebar').getByText('Kill a program that falls silent').click()
    await page.waitForURL(/kill-a-silent-program$/)
    expect(await page.locator('h1').innerText()).toContain('Kill a program that falls silent')
    await page.close()
  })

  it('finds a page by what a reader sees', async () => {
    const page = await open('')
    await page.keyboard.press('Control+k')
    await page.locator('#localsearch-input').fill('PROCESS_IDLE')
    await page.locator('.VPLocalSearchBox .result').first().waitFor()
    const titles = await page.locator('.VPLocalSearchBox .result').allInnerTexts()
    expect(titles.join('\n')).toContain('It says PROCESS_IDLE')
    await page.keyboard.press('Enter')
    await page.waitForURL(/troubleshooting|errors|process/)
    await page.close()
  })

  it('copies an example', async () => {
    const page = await open('tasks/run-a-program')
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.locator('div[class*=language-] button.copy').first().click()
    const copied = await page.evaluate('navigator.clipboard.readText()')
    expect(copied).toContain("import { run } from 'sheepdog'")
    await page.close()
  })

  it.each(['light', 'dark'] as const)('is wide enough and narrow enough, %s', async (colorScheme) => {
    for (const [width, height, size] of [
      [1440, 900, 'desktop'],
      [390, 844, 'phone'],
    ] as const)
      for (const path of [
        '',
        'tasks/json-by-schema',
        'recipes/code-review',
        'troubleshooting',
        'harness',
        'api/model',
      ]) {
        const page = await open(path, { viewport: { width, height }, colorScheme })
        const overflow = await page.evaluate('document.documentElement.scrollWidth - innerWidth')
        expect(overflow, `${path} ${size}`).toBeLessThanOrEqual(0)
        const clipped = await page.evaluate(
          `[...document.querySelectorAll('.VPSidebar .text')].filter((text) => {
            const { right, width } = text.getBoundingClientRect()
            return width > 0 && right > document.querySelector('.VPSidebar').getBoundingClientRect().right
          }).map((text) => text.textContent)`,
        )
        expect(clipped, `${path} ${size}`).toEqual([])
        const faults = await axeFaults(page)
        expect(faults, `${path} ${size} ${colorScheme}`).toEqual([])
        const isDark = await page.evaluate('document.documentElement.classList.contains("dark")')
        expect(isDark).toBe(colorScheme === 'dark')
        if (pictures) {
          mkdirSync(pictures, { recursive: true })
          const name = `${path.replace('/', '-') || 'index'}-${size}-${colorScheme}.png`
          await page.screenshot({ path: join(pictures, name) })
        }
        await page.close()
      }
  })
})
