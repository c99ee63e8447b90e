import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import * as sheepdog from '..'
import { run } from '..'

it('the reference has every value that is exported, and nothing of the inside', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sheepdog-reference-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const script = join(__dirname, '../scripts/reference.mjs')
  const { exitCode, stderr } = await run(process.execPath, [script, folder])
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
  const pages = readdirSync(folder).map((file) => readFileSync(join(folder, file), 'utf8'))
  const names = pages.flatMap((page) => [...page.matchAll(/^## (\w+)$/gm)].map(([, name]) => name))
  const wanted = Object.keys(sheepdog).filter((name) => name !== 'default' && name !== 'module.exports')
  expect(wanted.length).toBeGreaterThan(20)
  expect(wanted.filter((name) => !names.includes(name))).toEqual([])
  expect(pages.join('\n')).not.toMatch(/#private|@internal|constructor\(\w+: Native/)
})
