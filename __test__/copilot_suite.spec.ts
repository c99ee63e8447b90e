// How the Copilot SDK's own tests are run with this package in its place, on a small repository of that form.
import { spawnSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { temporaryFolder } from './copilot/peer'

const root = join(__dirname, '..')

function run(args: string[]) {
  const env = { ...process.env, COPILOT_SDK_CHECKOUT: undefined }
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(root, 'trials/copilot-sdk.mjs'), ...args],
    { encoding: 'utf8', env },
  )
  return { status, told: stdout + stderr }
}

it('says what is missing', () => {
  expect(run([])).toMatchObject({ status: 0, told: expect.stringContaining('no checkout') })
  const folder = temporaryFolder()
  expect(run(['--checkout', folder]).told).toContain('nodejs/test/e2e is not there')
})

it('tells what passes with the SDK and not with this package, and the other way about', () => {
  const checkout = temporaryFolder()
  const nodejs = join(checkout, 'nodejs')
  mkdirSync(join(nodejs, 'test/e2e'), { recursive: true })
  mkdirSync(join(nodejs, 'src'))
  symlinkSync(join(root, 'node_modules'), join(nodejs, 'node_modules'))
  writeFileSync(join(nodejs, 'package.json'), '{"type":"module"}')
  writeFileSync(join(nodejs, 'src/index.ts'), "export * from '@github/copilot-sdk'\n")
  writeFileSync(
    join(nodejs, 'test/e2e/small.e2e.test.ts'),
    `import { expect, it } from 'vitest'
     import * as sdk from '../../src/index.js'
     it('is the same', () => expect(sdk.approveAll({} as never, {} as never)).toBeTruthy())
     it('is the SDK', () => expect('SheepdogError' in sdk).toBe(false))
     it('is this package', () => expect('SheepdogError' in sdk).toBe(true))
    `,
  )
  const { status, told } = run(['--checkout', checkout])
  expect(told).toContain('with the SDK 2 of 3 pass, with this package 2 of 3')
  expect(told).toContain('only with the SDK: test/e2e/small.e2e.test.ts: is the SDK')
  expect(told).toContain('only with this package: test/e2e/small.e2e.test.ts: is this package')
  expect(status).toBe(1)
})
