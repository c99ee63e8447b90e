import { createRequire } from 'node:module'
import { describe, expect, it } from 'vitest'
import * as imported from '../index.js'

describe('the package', () => {
  it('exports the same names to import and to require', () => {
    const required = createRequire(import.meta.url)('../index.js')
    const names = Object.keys(required).sort()
    expect(names).toEqual(
      Object.keys(imported)
        .filter((name) => name !== 'default' && name !== 'module.exports')
        .sort(),
    )
    expect(names).toEqual(expect.arrayContaining(['run', 'spawn', 'RunningProcess', 'SheepdogError']))
  })
})
