// The page of `sheepdog view` in many tabs of a real browser (scripts/browser.mjs finds one), while a run is removed.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { chromium } from 'playwright-core'
import { expect, it } from 'vitest'
import { RecordSource } from '../dist/cli/view/record_source'
import { serveView } from '../dist/cli/view/server'
import { writeTurn } from './view-records'

const executablePath = process.env.SHEEPDOG_BROWSER

it.runIf(executablePath !== undefined || process.env.CI)(
  'is open in as many tabs as one likes, and each leaves a run that was removed',
  async () => {
    const records = mkdtempSync(join(tmpdir(), 'view-tabs-'))
    for (const id of ['r1', 'r2']) writeTurn(records, { id, name: `turn ${id}`, events: 4 })
    const view = await serveView({ source: await RecordSource.open(records) })
    const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
    try {
      // All tabs of a browser share its connections to a server: six.
      const context = await browser.newContext({ viewport: { width: 1280, height: 760 } })
      const pages = await Promise.all(Array.from({ length: 8 }, () => context.newPage()))
      for (const page of pages) {
        await page.goto(view.url)
        await expect.poll(() => page.locator('#name').textContent()).toBe('turn r2')
      }
      rmSync(join(records, 'r2'), { recursive: true })
      for (const page of pages) {
        await page.locator('#nothing').waitFor()
        await expect.poll(() => page.locator('.run').count()).toBe(1)
      }
      await pages[0]!.locator('.run').click()
      await expect.poll(() => pages[0]!.locator('#name').textContent()).toBe('turn r1')
    } finally {
      await browser.close()
      await view.close()
      rmSync(records, { recursive: true })
    }
  },
)
