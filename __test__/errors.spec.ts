// Codes of errors and their fields: one table, and everything that is made from it.
import { readFileSync } from 'node:fs'
import { relative } from 'node:path'
import { expect, it } from 'vitest'
import { errorFiles } from '../scripts/errors.mjs'
import { root } from '../scripts/step.mjs'

it('everything made from the table of error codes is current (`npm run errors` makes it anew)', async () => {
  const files = Object.entries(await errorFiles())
  const stale = files.filter(([file, text]) => readFileSync(file, 'utf8') !== text)
  expect(stale.map(([file]) => relative(root, file))).toEqual([])
})
