// What a page says was tested is there to be run: every test and every file of tests that docs/ names.
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'

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
for (const path of [...filesBelow('src'), ...filesBelow('tests')])
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
    /^(__test__|tests|fixtures|scripts|src|fuzz)\/[\w./-]+\.\w+$/.test(code),
  )
  expect(files.filter((path) => !existsSync(join(root, path)))).toEqual([])
})

it('enough of them', () => {
  const text = ['security.md', 'internals/runtime.md', 'internals/process.md'].map((page) =>
    readFileSync(join(root, 'docs', page), 'utf8'),
  )
  expect(text.join().match(/`[a-z0-9]+(_[a-z0-9]+){4,}`/g)?.length).toBeGreaterThan(100)
})
