// What a page says was tested is there to be run: every test and every file of tests that docs/ names.
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { targets } from '../scripts/release/library.mjs'
import { parts } from '../trials/platforms/parts.mjs'

const root = join(import.meta.dirname, '..')
const pages = ['docs', 'docs/internals'].flatMap((folder) =>
  readdirSync(join(root, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `${folder}/${name}`),
)

function* filesBelow(folder: string): Generator<string> {
  for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
    const path = `${folder}/${entry.name}`
    if (entry.isDirectory()) yield* filesBelow(path)
    else if (path.endsWith('.rs')) yield path
  }
}

/** Names of all Rust functions. */
const functions = new Set<string>()
for (const path of [...filesBelow('src'), ...filesBelow('crates'), ...filesBelow('tests')])
  for (const [, name] of readFileSync(join(root, path), 'utf8').matchAll(/\bfn (\w+)/g)) functions.add(name!)

it.each(pages)('%s names tests that are there', (page) => {
  const text = readFileSync(join(root, page), 'utf8')
  const spoken = [...text.matchAll(/`([^`\n]+)`/g)].map(([, code]) => code!)
  // A sentence of five words and more; what a protocol says is shorter.
  const sentences = spoken.filter((code) => /^[a-z0-9]+(_[a-z0-9]+){4,}\*?$/.test(code))
  const isKnown = (name: string) =>
    name.endsWith('*') ? [...functions].some((one) => one.startsWith(name.slice(0, -1))) : functions.has(name)
  expect(sentences.filter((name) => !isKnown(name))).toEqual([])
  const files = spoken.filter((code) =>
    /^(__test__|tests|fixtures|scripts|src|crates|fuzz)\/[\w./-]+\.\w+$/.test(code),
  )
  expect(files.filter((path) => !existsSync(join(root, path)))).toEqual([])
})

/** Tests that comments of a page name: `<!-- test: crates/process/tests/process/sandbox.rs::a_name -->`, or a title in a file of vitest. */
const named = (text: string) =>
  [...text.matchAll(/<!-- test: (\S+?)::(.+?) -->/g)].map(([, path, name]) => ({ path: path!, name: name! }))

it.each(pages)('%s names in its comments tests that are there', (page) => {
  const wrong = named(readFileSync(join(root, page), 'utf8')).filter(({ path, name }) => {
    if (!existsSync(join(root, path))) return true
    const source = readFileSync(join(root, path), 'utf8')
    return path.endsWith('.rs') ? !new RegExp(`\\bfn ${name}\\(`).test(source) : !source.includes(name)
  })
  expect(wrong).toEqual([])
})

it.each([
  ['internals/sandbox.md', /^## What is enforced$/m, /$(?![^])/],
  ['security.md', /^## The program that is run$/m, /^## Records, the list of trees/m],
])('every promise of docs/%s has a test', (page, from, to) => {
  const text = readFileSync(join(root, 'docs', page), 'utf8')
  const promises = text
    .slice(text.search(from), text.search(to))
    .replace(/^Not promised:[\s\S]*?(?=^#|^\|)/gm, '')
  // Rows of tables, and points of lists, that are no head of a table.
  const points = promises.split(/\n(?=[|-] |\n)/).filter((point) => /^[|-] /.test(point))
  const heads = /^\| (-+|promise|attempt on)/
  expect(points.filter((point) => !heads.test(point) && !point.includes('<!-- test: '))).toEqual([])
  expect(points.length).toBeGreaterThan(15)
})

it('the workflow runs each part of the trial of platforms, and docs/internals/platforms.md describes each', () => {
  const workflow = readFileSync(join(root, '.github/workflows/test.yml'), 'utf8')
  expect(/^ +part: \[(.*)\]$/m.exec(workflow)?.[1]?.split(', ')).toEqual(Object.keys(parts))
  const page = readFileSync(join(root, 'docs/internals/platforms.md'), 'utf8')
  const heads = [...page.matchAll(/^\| (`[^|]+) \|/gm)].flatMap(([, names = '']) => names.split(', '))
  expect(heads.map((name) => name.slice(1, -1)).sort()).toEqual(Object.keys(parts).sort())
})

it('package.json, the folders of npm/ and the release name the same platforms', () => {
  const { os } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { os: string[] }
  const folders = readdirSync(join(root, 'npm'))
  expect(Object.values(targets).sort()).toEqual(folders.sort())
  expect([...new Set(folders.map((name) => name.split('-')[0]))].sort()).toEqual([...os].sort())
  const workflow = readFileSync(join(root, '.github/workflows/release.yml'), 'utf8')
  expect([...workflow.matchAll(/target: ([\w-]+)/g)].map(([, name]) => name)).toEqual(Object.keys(targets))
})

it('enough of them', () => {
  const text = ['security.md', 'internals/runtime.md'].map((page) =>
    readFileSync(join(root, 'docs', page), 'utf8'),
  )
  expect(text.join().match(/(`|::)[a-z0-9]+(_[a-z0-9]+){4,}(`| -->)/g)?.length).toBeGreaterThan(100)
})
