// The page of `sheepdog view` in a real browser (scripts/browser.mjs finds one): open it, follow a live run, stop it, look at one whose
// host was killed, read a program's output as a terminal shows it, by mouse, by keyboard and by axe-core, in both themes.
// SHEEPDOG_SCREENSHOTS writes those of docs/.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { chromium, type Browser, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { run, type SheepdogError } from '..'
import { command, started } from './cli-command'
import { played, session } from './played-agent'
import { writeOutput, writeSession, writeTurn } from './view-records'
import { tests, work, tool } from './view-work'

const browserPath = process.env.SHEEPDOG_BROWSER
const docs = process.env.SHEEPDOG_SCREENSHOTS && join(__dirname, '../docs')
// In pictures, a folder as a reader might have it.
const folder = docs ? '/tmp/parser' : mkdtempSync(join(tmpdir(), 'view-spec-'))
const views: ReturnType<typeof started>[] = []
let browser: Browser

/** A view's page; what goes wrong in it is a fault of the test. */
async function open(
  records: string,
  options: { colorScheme?: 'dark' | 'light'; viewport?: { width: number; height: number } } = {},
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

const axe = readFileSync(createRequire(__filename).resolve('axe-core/axe.min.js'), 'utf8')

interface Violation {
  id: string
  impact: string
  nodes: { html: string }[]
}

/** Faults that axe-core calls serious or critical. */
async function faults(page: Page): Promise<string[]> {
  await page.evaluate(axe)
  const { violations, passes } = (await page.evaluate('axe.run()')) as {
    violations: Violation[]
    passes: { id: string }[]
  }
  expect(passes.map(({ id }) => id)).toContain('color-contrast')
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join('\n')}`)
}

const rows = (page: Page) => page.locator('.row .text').allTextContents()
const screenshot = async (page: Page, name: string) => docs && page.screenshot({ path: join(docs, name) })

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
    await expect.poll(async () => (await rows(page)).at(-1)).toMatch(/✓ parses line 0/)
    expect(await page.locator('#state').textContent()).toBe('▶ running')
    expect(await page.locator('#follow').isVisible()).toBe(true)
    expect(await page.locator('#texts').textContent()).toContain('Which tests fail, and why? Fix them.')
    await page.locator('#tree tbody tr', { hasText: 'sleep 1000' }).waitFor()
    expect(await page.locator('#tree tbody tr').first().textContent()).toContain('codex exec')
    // Folded, until it is asked for.
    expect(await page.locator('#rows pre').count()).toBe(0)
    await page.locator('.row.bad.folds').click()
    expect(await page.locator('#rows pre').textContent()).toBe(tests)
    await screenshot(page, 'view-live.png')
    const stop = page.getByRole('button', { name: 'Stop', exact: true })
    await stop.click()
    await page.getByRole('dialog', { name: /^Stop “Which tests fail/ }).waitFor()
    // Escape, and the button that has the focus, let it run.
    await page.keyboard.press('Escape')
    await page.locator('#sure').waitFor({ state: 'hidden' })
    await stop.click()
    await page.keyboard.press('Enter')
    await page.locator('#sure').waitFor({ state: 'hidden' })
    expect(await page.locator('#state').textContent()).toBe('▶ running')
    await stop.click()
    await page.getByRole('button', { name: 'Stop it' }).click()
    const error = (await turn.result.catch((error: SheepdogError) => error)) as SheepdogError
    expect(error.code).toBe('AGENT_CRASHED')
    await page.locator('#state.failed').waitFor()
    expect(await page.locator('#stop').isVisible()).toBe(false)
    await page.locator('#tree').waitFor({ state: 'hidden' })
    await page.locator('.run', { hasText: 'build' }).click()
    await expect
      .poll(() => rows(page))
      .toEqual(expect.arrayContaining(['compiling 1', 'compiling 2', 'compiling 3']))
    await page.locator('.row', { hasText: 'warning: unused' }).getByText('err').waitFor()
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

  it("shows a program's output as a terminal does", async () => {
    const records = join(folder, 'terminal')
    const script = String.raw`for n in $(seq 1 25); do printf '\033[32mok\033[0m %s\n' $n; done
      printf 'at 10%%\rat 100%%\n\033[31mred\nstill red\033[0m\n<b>text</b>\n'; printf 'half '; sleep 0.2; echo beside >&2; sleep 0.1; echo done`
    await run('sh', ['-c', script], { record: records, name: 'colours' })
    const page = await open(records, { colorScheme: 'light' })
    await page.locator('#count', { hasText: /^31 lines$/ }).waitFor()
    await expect.poll(() => rows(page)).toEqual(expect.arrayContaining(['ok 1', 'ok 2', 'ok 15']))
    await page.locator('#rows').focus()
    await page.keyboard.press('End')
    await expect
      .poll(() => rows(page))
      .toEqual(
        expect.arrayContaining([
          'ok 25',
          'at 100%',
          'red',
          'still red',
          '<b>text</b>',
          'half done',
          'beside',
        ]),
      )
    const spans = (text: string) => page.locator('.row .text > span', { hasText: new RegExp(`^${text}$`) })
    // A row that is drawn anew in between is not in the page, and has no colour.
    const colour = async (text: string) => {
      let found = ''
      const look = (span: unknown) => String(Object(globalThis).getComputedStyle(span).color)
      await expect.poll(async () => (found = await spans(text).first().evaluate(look))).not.toBe('')
      return found
    }
    expect(await colour('still red')).toBe(await colour('red'))
    expect(await colour('red')).not.toBe(await colour('beside'))
    await page.keyboard.press('/')
    await page.keyboard.type('STILL RED')
    await page.locator('#found', { hasText: '1 of 1' }).waitFor()
    expect(await page.locator('mark').textContent()).toBe('still red')
    await page.locator('#words').fill('nowhere')
    await page.locator('#found', { hasText: 'no match' }).waitFor()
    const [download] = await Promise.all([
      page.waitForEvent('download'),
      page.getByRole('link', { name: 'Download text' }).click(),
    ])
    const text = readFileSync(await download.path(), 'utf8')
    expect(text.split('\n')).toEqual(expect.arrayContaining(['ok 25', 'at 100%', 'half done']))
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.getByRole('button', { name: 'Copy' }).click()
    await page.getByRole('button', { name: 'Copied' }).waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(text)
    await page.locator('#filter').fill('nothing like it')
    await page.locator('#none', { hasText: 'No match' }).waitFor()
    await page.close()
  })

  it('jumps to the silences of a run', async () => {
    const records = join(folder, 'silences')
    writeOutput(records, { id: 'a', lines: 3000, pauses: { 1000: 12_000, 2000: 61_000 } })
    const page = await open(records)
    const silence = page.getByRole('button', { name: 'Silence' })
    await page.locator('#count', { hasText: /^3,000 lines$/ }).waitFor()
    await page.locator('#rows .row').first().waitFor()
    await silence.click()
    await page
      .locator('.row', { hasText: 'silent for 12.0 s' })
      .getByText('line 1001', { exact: false })
      .waitFor()
    await silence.click()
    await page.locator('.row.active', { hasText: 'silent for 1:01' }).getByText('line 2001').waitFor()
    await page.close()
  })

  it.each(['light', 'dark'] as const)(
    'has no serious fault of accessibility in the %s theme',
    async (colorScheme) => {
      const records = join(folder, `axe-${colorScheme}`)
      writeOutput(records, { id: 'b-output', lines: 40, pauses: { 5: 4000 } })
      writeTurn(records, { id: 'c-turn', name: 'a turn', events: 30 })
      writeTurn(records, { id: 'd-lost', name: 'a lost turn', events: 30, end: false })
      writeSession(records, { id: 'a-session', prompts: ['Fix it.', 'Why does it fail?'] })
      const page = await open(records, { colorScheme })
      for (const name of ['a turn', 'a lost turn', 'output', 'a session']) {
        await page.locator('.run', { hasText: new RegExp(`[✓✗?]${name}`) }).click()
        await page.locator('h2', { hasText: new RegExp(`^${name}$`) }).waitFor()
        await page.locator('#rows .row').first().waitFor()
        await page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        expect(await faults(page), name).toEqual([])
      }
      // Still the session: its prompts lead to their rows.
      await page.getByRole('button', { name: 'Why does it fail?' }).click()
      await page.locator('.row.active', { hasText: 'Why does it fail?' }).waitFor()
      await page.setViewportSize({ width: 390, height: 844 })
      expect(await faults(page), 'a run on a phone').toEqual([])
      await page.getByRole('button', { name: 'Back to the runs' }).click()
      expect(await faults(page), 'the list on a phone').toEqual([])
      await page.close()
    },
  )

  it('sums up the runs that are listed, and opens the texts of short ones', async () => {
    const records = join(folder, 'sums')
    writeTurn(records, { id: '3', name: 'a short one', events: 10 })
    writeTurn(records, { id: '2', name: 'a long one', events: 400 })
    writeTurn(records, { id: '1', name: 'a lost one', events: 10, end: false })
    const page = await open(records)
    const sums = page.locator('#sums')
    await sums.filter({ hasText: '3 runs · 1 failed · 26,046 tokens · $0.84' }).waitFor()
    await page.locator('#filter').fill('a short')
    await sums.filter({ hasText: '1 run · 0 failed · 13,023 tokens · $0.42' }).waitFor()
    await page.locator('#filter').fill('')
    await page.locator('.run', { hasText: 'a short one' }).click()
    await page.locator('#texts details[open] pre', { hasText: 'a short one' }).waitFor()
    await page.locator('.row .at', { hasText: '0:00.040' }).waitFor()
    // Nothing comes any more.
    expect(await page.locator('#follow').isVisible()).toBe(false)
    // Folded again, it stays so.
    await page.locator('#texts summary', { hasText: 'prompt' }).click()
    await page.locator('#texts details:not([open])').waitFor()
    await page.locator('.run', { hasText: 'a long one' }).click()
    await page.locator('h2', { hasText: 'a long one' }).waitFor()
    await page.locator('#texts details:not([open])').waitFor()
    await page
      .locator('.row .at', { hasText: /^0:00.0$/ })
      .first()
      .waitFor()
    await page.close()
  })

  it('shows the entries of a race side by side, and leads from one to the other', async () => {
    const records = mkdtempSync(join(folder, 'race-'))
    const entry = { provider: 'codex', tokens: 13_023, costUsd: 0.42, durationMs: 12_300, files: 2 }
    const why = 'verify ended with exit status 1'
    const entries = [
      { ...entry, run: 'r1', state: 'failed-verify', reason: why },
      { ...entry, run: 'r2', provider: 'claude-code', state: 'won', reason: null, files: 1 },
      { ...entry, run: null, state: 'aborted', reason: null, tokens: null, costUsd: null, files: null },
    ]
    for (const id of ['r1', 'r2']) {
      const run = writeTurn(records, { id, name: `try ${id}`, events: 10 })
      writeFileSync(join(run, 'race.json'), JSON.stringify({ entries }))
    }
    writeTurn(records, { id: 'r0', name: 'alone', events: 10 })
    const page = await open(records)
    await expect
      .poll(() => page.locator('#race summary').textContent())
      .toBe('Race: 3 agents, claude-code won')
    const cells = async () =>
      (await page.locator('#race tbody tr').all()).map((row) => row.locator('td').allTextContents())
    expect(await Promise.all(await cells())).toEqual([
      ['codex', 'failed verify', '12.3 s', '13,023 tokens', '$0.42', '2 files', why],
      ['claude-code', 'won', '12.3 s', '13,023 tokens', '$0.42', '1 file', ''],
      ['codex', 'aborted', '12.3 s', '', '', '', ''],
    ])
    expect(await page.locator('#race [aria-current]').count()).toBe(1)
    expect(await faults(page)).toEqual([])
    await page.locator('#race a').click()
    await expect.poll(() => page.locator('#name').textContent()).toBe('try r1')
    await page.getByText('alone').click()
    await expect.poll(() => page.locator('#race').isHidden()).toBe(true)
    await page.close()
  })

  it('shows the list or the run on a phone', async () => {
    const records = join(folder, 'phone')
    writeTurn(records, { id: '2', name: 'the newer', events: 10 })
    writeTurn(records, { id: '1', name: 'the older', events: 10 })
    const page = await open(records, { viewport: { width: 390, height: 844 } })
    const [list, detail] = [page.locator('#runs'), page.locator('#detail')]
    await page.locator('.run', { hasText: 'the older' }).waitFor()
    expect(await detail.isVisible()).toBe(false)
    await page.locator('.run', { hasText: 'the older' }).click()
    await page.locator('h2', { hasText: 'the older' }).waitFor()
    expect(await list.isVisible()).toBe(false)
    await page.locator('#rows .row').first().waitFor()
    await page.getByRole('button', { name: 'Back to the runs' }).click()
    await list.waitFor()
    expect(await detail.isVisible()).toBe(false)
    // The browser's own way back is the same.
    await page.locator('.run', { hasText: 'the newer' }).click()
    await page.locator('h2', { hasText: 'the newer' }).waitFor()
    await page.goBack()
    await list.waitFor()
    expect(await detail.isVisible()).toBe(false)
    // With a keyboard, Enter opens the run.
    await page.keyboard.press('End')
    expect(await list.isVisible()).toBe(true)
    await page.keyboard.press('Enter')
    await page.locator('h2', { hasText: 'the older' }).waitFor()
    await page.close()
  })

  it('is worked by keyboard alone', async () => {
    const records = join(folder, 'keys')
    writeTurn(records, { id: '2', name: 'the newer', events: 4 })
    writeTurn(records, { id: '1', name: 'the older', events: 400 })
    const page = await open(records)
    await page.locator('#rows .row').first().waitFor()
    await page.locator('#filter').focus()
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('ArrowDown')
    await page.locator('h2', { hasText: 'the older' }).waitFor()
    const chosen = await page.locator('#runs').getAttribute('aria-activedescendant')
    expect(await page.locator(`#${chosen}`).getAttribute('aria-selected')).toBe('true')
    await page.locator('#rows .row').first().waitFor()
    while ((await page.evaluate('document.activeElement.id')) !== 'rows') await page.keyboard.press('Tab')
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await page.locator('#rows pre', { hasText: 'in no time' }).waitFor()
    const active = page.locator(`#${await page.locator('#rows').getAttribute('aria-activedescendant')}`)
    expect(await active.getAttribute('aria-expanded')).toBe('true')
    expect(await page.locator('#news').textContent()).toContain('in no time')
    await page.keyboard.press('ArrowLeft')
    await page.locator('#rows pre').waitFor({ state: 'detached' })
    await page.close()
  })

  it('opens a row that was still on its way when it was asked to', async () => {
    const records = join(folder, 'on-its-way')
    // The newest one is open at first, and may ask for its rows again.
    writeTurn(records, { id: '2', name: 'the newer', events: 4 })
    writeTurn(records, { id: '1', name: 'the older', events: 400 })
    const page = await open(records)
    await page.locator('#rows .row').first().waitFor()
    let send = () => {}
    const sent = new Promise<void>((resolve) => (send = resolve))
    await page.route('**/rows?*', async (route) => {
      await sent
      await route.continue()
    })
    const asked = page.waitForRequest('**/runs/1/rows?*')
    await page.locator('.run', { hasText: 'the older' }).click()
    await asked
    await page.locator('#rows').focus()
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    send()
    await page.locator('#rows pre', { hasText: 'in no time' }).waitFor()
    await page.close()
  })

  it('stays smooth with a million lines', async () => {
    const records = join(folder, 'million')
    writeOutput(records, { id: 'a', lines: 1_000_000 })
    const page = await open(records)
    await page.locator('#rows .row').first().waitFor()
    await page.locator('#count', { hasText: '1,000,000 lines' }).waitFor({ timeout: 90_000 })
    await page.locator('#rows').focus()
    await page.keyboard.press('End')
    await page.locator('.row', { hasText: 'line 1000000 ' }).waitFor()
    await page.locator('#words').fill('line 777777 ')
    await page.locator('.row.active', { hasText: 'line 777777 ' }).waitFor()
    expect(await page.locator('.row').count()).toBeLessThan(80)
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
