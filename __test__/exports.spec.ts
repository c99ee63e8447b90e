import { execFileSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync, readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import * as imported from '../index.js'

const root = join(__dirname, '..')
const required = createRequire(import.meta.url)('../index.js') as Record<string, unknown>
const names = Object.keys(required).sort()

function temporary(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sheepdog-exports-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

describe('the package', () => {
  it('exports the same names to import and to require', () => {
    expect(names).toEqual(
      Object.keys(imported)
        .filter((name) => name !== 'default' && name !== 'module.exports')
        .sort(),
    )
    expect(names).toEqual(expect.arrayContaining(['run', 'spawn', 'RunningProcess', 'SheepdogError']))
  })

  it('is one for import and require, by its name', () => {
    execFileSync(process.execPath, [join(root, 'scripts/generated.mjs')])
    const script = `
      import { createRequire } from 'node:module'
      import sheepdog, * as all from 'sheepdog'
      const required = createRequire(import.meta.url)('sheepdog')
      console.log(JSON.stringify([sheepdog === required, Object.keys(all).filter((name) => name !== 'default').sort()]))`
    const args = ['--input-type=module', '-e', script]
    const [isOne, all] = JSON.parse(execFileSync(process.execPath, args, { cwd: root, encoding: 'utf8' }))
    expect(isOne).toBe(true)
    expect(all).toEqual(names)
  })

  it('promises no value in its types that is not there', () => {
    const types = readFileSync(join(root, 'index.d.ts'), 'utf8')
    expect(valuesIn(types)).toEqual(names)
    expect(types).not.toContain('RunOptions$1')
    // Nor of the inside: what is made by this package alone has no constructor for others.
    expect(types).not.toMatch(/@internal|\bNative[A-Z]/)
    expect(types).toMatch(/class RunningProcess[^{]*\{\s*private constructor\(\)/)
  })

  it('is small: the rest is in entries of its own', () => {
    const types = readFileSync(join(root, 'index.d.ts'), 'utf8')
    expect(types.split('\n').length).toBeLessThan(3500)
    const exported = types.matchAll(/^export (?:declare )?(?:class|function|const|interface|type) (\w+)/gm)
    expect(new Set([...exported].map(([, name]) => name)).size).toBeLessThanOrEqual(130)
    for (const name of [
      'CopilotClient',
      'Fleet',
      'serveRuntime',
      'RuntimeClient',
      'complete',
      'withRetry',
      'scriptedAgent',
    ])
      expect(names).not.toContain(name)
  })
})

/** Names of the values that declarations promise. */
function valuesIn(types: string): string[] {
  const declared = types.matchAll(/^export declare (?:abstract )?(?:class|function|const) (\w+)/gm)
  const passedOn = [...types.matchAll(/^export \{([^}]*)\}/gm)].flatMap(([, list = '']) => list.split(','))
  const others = passedOn.map((name) => name.trim()).filter((name) => names.includes(name))
  return [...new Set([...[...declared].map(([, name]) => name!), ...others])].sort()
}

describe.each(['copilot', 'fleet', 'model', 'runtime', 'testing'])('the entry point sheepdog/%s', (name) => {
  it('is the same to import and to require, and shares with the root what both have', () => {
    const script = `
      import { createRequire } from 'node:module'
      import whole from 'sheepdog'
      import part, * as all from 'sheepdog/${name}'
      const required = createRequire(import.meta.url)('sheepdog/${name}')
      const names = Object.keys(all).filter((name) => name !== 'default')
      const isShared = names.every((name) => !(name in whole) || all[name] === whole[name])
      console.log(JSON.stringify([part === required, isShared, names]))`
    const args = ['--input-type=module', '-e', script]
    const [isOne, isShared, found] = JSON.parse(
      execFileSync(process.execPath, args, { cwd: root, encoding: 'utf8' }),
    )
    expect([isOne, isShared]).toEqual([true, true])
    const main = {
      copilot: 'CopilotClient',
      fleet: 'Fleet',
      model: 'complete',
      runtime: 'serveRuntime',
      testing: 'scriptedAgent',
    }[name]
    expect(found).toEqual(expect.arrayContaining([main, 'SheepdogError']))
    const types = readFileSync(join(root, `entries/${name}.d.ts`), 'utf8')
    expect(types).not.toMatch(/@internal|\bNative[A-Z]/)
    expect(valuesIn(types)).toEqual(found.sort())
  })
})

describe('without its addon', () => {
  it('the package names that of the platform, and what to do', () => {
    const folder = temporary()
    for (const part of ['index.js', 'package.json', 'dist'])
      cpSync(join(root, part), join(folder, part), { recursive: true })
    mkdirSync(join(folder, 'native'))
    cpSync(join(root, 'native/native.js'), join(folder, 'native/native.js'))
    const script = `try { require('./index.js') } catch (error) { console.log(error.code, error.message) }`
    const told = execFileSync(process.execPath, ['-e', script], { cwd: folder, encoding: 'utf8' })
    expect(told).toMatch(
      /^ADDON_MISSING the addon for this platform did not load: Cannot find module .*\. It is the package sheepdog-\w+-\w+/,
    )
    expect(told).toContain('npm install sheepdog-')
  })

  it.each([
    [
      'node may load none',
      ['--no-addons'],
      undefined,
      /addons is disabled.*\. Possible causes: Node\.js may not load/,
    ],
    ['its file is damaged', [], 'no library', /sheepdog\.[\w-]+\.node: .*\. Possible causes: /],
  ])('the package says the reason of the loader: %s', (_, flags, content, expected) => {
    const folder = temporary()
    for (const part of ['index.js', 'package.json', 'dist', 'native'])
      cpSync(join(root, part), join(folder, part), { recursive: true })
    const addon = readdirSync(join(folder, 'native')).find((file) => file.endsWith('.node'))!
    if (content) writeFileSync(join(folder, 'native', addon), content)
    const script = `try { require('./index.js') } catch (error) { console.log(error.code, error.message) }`
    const told = execFileSync(process.execPath, [...flags, '-e', script], { cwd: folder, encoding: 'utf8' })
    expect(told).toMatch(expected)
    expect(told).not.toMatch(/--omit=optional|wasi/)
  })

  it('a bundle says what to set', () => {
    const folder = temporary()
    mkdirSync(join(folder, 'a/b'), { recursive: true })
    for (const file of ['native.js', 'library.js'])
      cpSync(join(root, 'dist/lib', file), join(folder, 'a/b', file))
    writeFileSync(
      join(folder, 'a/b/run.js'),
      `try { require('./native.js') } catch (error) { console.log(error.message) }`,
    )
    const told = execFileSync(process.execPath, [join(folder, 'a/b/run.js')], { encoding: 'utf8' })
    expect(told).toContain('sheepdog was bundled')
    expect(told).toContain('--external:sheepdog')
  })
})
