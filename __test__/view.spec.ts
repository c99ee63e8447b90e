// The page of `sheepdog view` in a real browser (scripts/browser.mjs finds one): open it, follow a live run, stop it, look at one whose
// host was killed. SHEEPDOG_SCREENSHOTS writes those of docs/.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { chromium, type Browser, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { run, type SheepdogError } from '..'
import { command, started } from './cli-command'
import { played, said, session } from './played-agent'
import { writeTurn } from './view-records'

const browserPath = process.env.SHEEPDOG_BROWSER
const docs = process.env.SHEEPDOG_SCREENSHOTS && join(__dirname, '../docs')
// In pictures, a folder as a reader might have it.
const folder = docs ? '/tmp/parser' : mkdtempSync(join(tmpdir(), 'view-spec-'))
const views: ReturnType<typeof started>[] = []
let browser: Browser

/** A view's page; what goes wrong in it is a fault of the test. */
async function open(
  records: string,
  options: { colorScheme?: 'dark' | 'light' } = {},
  ...args: string[]
): Promise<Page> {
  const view = started(['view', records, ...args])
  views.push(view)
  const url = (await view.printed(/\n/)).trim()
  const page = await browser.newPage({ viewport: { width: 1280, height: 760 }, ...options })
  page.on('pageerror', (error) => expect.fail(`in the page: ${error.message}`))
  page.on('console', (message) => {
    if (message.type() === 'error') expect.fail(`in the page: ${message.text()}`)
  })
  await page.goto(url)
  return page
}

const rows = (page: Page) => page.locator('.row .text').allTextContents()
const screenshot = async (page: Page, name: string) => docs && page.screenshot({ path: join(docs, name) })

let number = 0
/** A command of codex: when it begins, so long, what it says. */
function tool(words: string, wait: number, output: string, exit = 0): object[] {
  const item = {
    id: `c${number++}`,
    type: 'command_execution',
    command: words,
    aggregated_output: '',
    exit_code: null,
  }
  const end = { ...item, aggregated_output: output, exit_code: exit, status: exit ? 'failed' : 'completed' }
  const line = (type: string, item: object) => ({ line: { type, item } })
  return [line('item.started', { ...item, status: 'in_progress' }), { wait }, line('item.completed', end)]
}
const think = (text: string) => ({
  line: { type: 'item.completed', item: { id: 'r', type: 'reasoning', text } },
})

const tests = `${Array.from({ length: 12 }, (_, count) => `  ✓ parses line ${count}`).join('\n')}\n  ✗ keeps the session`
const work = [
  session,
  think('The failing tests first.'),
  { wait: 150 },
  said('I will run the tests first.'),
  ...tool('npm test', 900, tests, 1),
  { wait: 150 },
  think('The id of the session is not passed on.'),
  ...tool('sed -n 1,80p src/resume.ts', 120, 'export function resume(id) {\n  return open(id)\n}'),
  ...tool('apply_patch src/resume.ts', 150, 'Done!'),
]

describe.runIf(browserPath !== undefined || process.env.CI)('the page in a browser', () => {
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: browserPath, args: ['--no-sandbox'] })
  })
  afterAll(async () => {
    await browser?.close()
    for (const { child } of views) child.kill('SIGINT')
    await Promise.all(views.map(({ exit }) => exit))
    rmSync(folder, { recursive: true, force: true })
  })

  it('follows a live run, shows its processes, and stops it', async () => {
    const records = join(folder, 'live')
    await run('sh', ['-c', 'for n in 1 2 3; do echo "compiling $n"; done; echo "warning: unused" >&2'], {
      record: records,
      name: 'build',
    })
    const plan = [
      ...work,
      { wait: docs ? 3300 : 100 },
      ...tool('npm test', 600, tests.replace('✗', '✓')),
      { spawn: true },
      { hang: true },
    ]
    const turn = played([{ title: 'codex exec --json' }, ...plan], { cwd: records }).start(
      'Which tests fail, and why? Fix them.',
      { record: records },
    )
    const page = await open(records, { colorScheme: 'light' }, '--allow-stop')
    const item = page.locator('.run', { hasText: 'Which tests fail' })
    await item.click()
    await page.locator('.row .text', { hasText: 'npm test' }).first().waitFor()
    // They come by themselves, the newest last.
    await page.locator('.row', { hasText: 'keeps the session' }).nth(1).waitFor()
    expect((await rows(page)).at(-1)).toMatch(/✓ parses line 0/)
    expect(await page.locator('#state').textContent()).toBe('running')
    await page.locator('#tree tr', { hasText: 'sleep 1000' }).waitFor()
    expect(await page.locator('#tree tr').first().textContent()).toContain('codex exec')
    // Folded, until it is asked for.
    expect(await page.locator('pre').count()).toBe(0)
    await page.locator('.row.bad.folds').click()
    expect(await page.locator('pre').textContent()).toBe(tests)
    await screenshot(page, 'view-live.png')
    await page.getByRole('button', { name: 'Stop' }).click()
    const error = (await turn.result.catch((error: SheepdogError) => error)) as SheepdogError
    expect(error.code).toBe('AGENT_CRASHED')
    await page.locator('#state.failed').waitFor()
    expect(await page.locator('#stop').isVisible()).toBe(false)
    await page.locator('#tree').waitFor({ state: 'hidden' })
    await page.locator('.run', { hasText: 'build' }).click()
    await page.locator('.row', { hasText: 'compiling 1 compiling 2' }).waitFor()
    await page.close()
  })

  it('shows a run whose host was killed as what it is, and what was known until then', async () => {
    const records = join(folder, 'killed')
    mkdirSync(records, { recursive: true })
    const plan = [{ title: 'codex exec --json' }, ...work, { wait: 200 }, ...tool('cargo build', 60_000, '')]
    const fixture = join(__dirname, '../fixtures/bin/host-records.mjs')
    const host = spawn(process.execPath, [fixture, records, JSON.stringify(plan)], {
      cwd: records,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    for await (const line of createInterface(host.stdout)) if (line.includes('cargo build')) break
    const page = await open(records, { colorScheme: 'dark' })
    // In the files by now, and seen.
    await page.locator('.row .text', { hasText: 'cargo build' }).waitFor()
    host.kill('SIGKILL')
    await once(host, 'exit')
    await page.reload()
    await page.locator('#state.lost').waitFor()
    // Its guard ends what it left.
    await page.locator('#tree').waitFor({ state: 'hidden' })
    expect(await page.locator('#message').textContent()).toMatch(/^The host was gone before it ended/)
    await page.locator('.row .text', { hasText: 'sed -n 1,80p src/resume.ts' }).waitFor()
    expect(await page.locator('#stop').isVisible()).toBe(false)
    await screenshot(page, 'view-killed.png')
    await page.close()
  })

  it('shows why a run was killed', async () => {
    const records = join(folder, 'silent')
    await played([session, ...tool('sleep', 60_000, '')], { toolIdleTimeoutMs: 300 })
      .run('Wait.', { record: records })
      .catch(() => {})
    const page = await open(records)
    await page.locator('#state.killed').waitFor()
    expect(await page.locator('#message').textContent()).toMatch(/silent for 0.3 s/)
    await page.locator('.row.bad', { hasText: 'killed: it was silent for too long' }).waitFor()
    await page.close()
  })

  it('stays smooth with 100 runs, one of them of 100,000 events', async () => {
    const records = join(folder, 'many')
    for (let count = 0; count < 99; count++)
      writeTurn(records, { id: `a${100 + count}`, name: `turn ${count}`, events: 4 })
    writeTurn(records, { id: 'b', name: 'the long one', events: 100_000 })
    const page = await open(records)
    await page.locator('#count', { hasText: '100,000 rows' }).waitFor()
    // What is in sight is in the page, and no more.
    expect(await page.locator('.run').count()).toBeLessThan(40)
    expect(await page.locator('.row').count()).toBeLessThan(60)
    await page.locator('#rows').evaluate((list) => (list.scrollTop = list.scrollHeight))
    await page.locator('.row', { hasText: 'built 99999' }).waitFor()
    await page.locator('#rows').evaluate((list) => (list.scrollTop = list.scrollHeight / 2))
    await page
      .locator('.row', { hasText: /make part-500\d\d/ })
      .first()
      .waitFor()
    // Work of the page in frames while it is scrolled, in the time of its own thread: load of the machine is not in it.
    const session = await page.context().newCDPSession(page)
    await session.send('Performance.enable', { timeDomain: 'threadTicks' })
    const worked = async () => {
      const { metrics } = await session.send('Performance.getMetrics')
      return metrics.find(({ name }) => name === 'TaskDuration')!.value * 1000
    }
    const before = await worked()
    const frames = 120
    // As text: the page's names are none of this file's.
    await page.evaluate(`new Promise((done) => {
      const list = document.getElementById('rows')
      let left = ${frames}
      const step = () => {
        list.scrollTop += 400
        if (left-- > 0) requestAnimationFrame(step)
        else done()
      }
      step()
    })`)
    const perFrame = ((await worked()) - before) / frames
    expect(perFrame, 'ms of work a frame').toBeLessThan(16)
    if (process.env.SHEEPDOG_SCREENSHOTS) console.log(`${perFrame.toFixed(2)} ms of work a frame`)
    expect(await page.locator('.row').count()).toBeLessThan(60)
    await page.locator('#filter').fill('turn 57')
    await expect.poll(() => page.locator('.run').count()).toBe(1)
    await page.close()
  })

  it('is in the package as it is in the sources', () => {
    const { files } = JSON.parse(
      String(process.getBuiltinModule('node:fs').readFileSync(join(__dirname, '../package.json'))),
    ) as { files: string[] }
    expect(files).toContain('cli/view/page')
    expect(readdirSync(join(__dirname, '../cli/view/page')).length).toBeGreaterThan(5)
    expect(existsSync(command)).toBe(true)
  })
})
