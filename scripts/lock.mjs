// package-lock.json names every package of every platform: `npm ci` takes it, and `npm install` leaves it as it is.
import { copyFileSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fail, root, step } from './step.mjs'

export function checkLock() {
  for (const folder of [root, join(root, 'site')]) {
    const copy = mkdtempSync(join(tmpdir(), 'sheepdog-lock-'))
    const lock = (of) => readFileSync(join(of, 'package-lock.json'), 'utf8')
    try {
      for (const name of ['package.json', 'package-lock.json'])
        copyFileSync(join(folder, name), join(copy, name))
      const words = [
        'install',
        '--package-lock-only',
        '--ignore-scripts',
        '--no-audit',
        '--no-fund',
        '--silent',
      ]
      step('the lock of the packages', 'npm', [...words, '--prefix', copy])
      if (lock(copy) !== lock(folder))
        fail(`${join(folder, 'package-lock.json')} is not complete: run \`npm install\` and commit it`)
    } finally {
      rmSync(copy, { recursive: true, force: true })
    }
  }
}
