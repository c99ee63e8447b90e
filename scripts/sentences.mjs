// `node scripts/sentences.mjs [PAGE ...]`: how long the sentences of the pages are. Code blocks are left out; a list item, a table
// cell and a heading each count as sentences of their own.
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { root } from './step.mjs'

/** A sentence above this number of words is long. */
const LONG = 25
/** Code within a sentence counts as one word, whatever it holds. */
const CODE = /``[^\n]*?``|`[^`]*`/g

/** The sentences of a page of Markdown. */
export function sentencesOf(markdown) {
  const text = markdown
    .replace(/^[ \t]*```[\s\S]*?^[ \t]*```[ \t]*$/gm, '\n\n')
    .replace(/<!--[\s\S]*?-->/g, '')
    .replace(/!\[[^\]]*\]\([^)]*\)/g, '')
    .replace(/\]\([^)]*\)/g, ']')
  const parts = []
  for (const paragraph of text.split(/\n\s*\n/)) {
    let open = ''
    for (const line of paragraph.split('\n')) {
      if (/^\s*\|/.test(line)) {
        parts.push(open, ...line.replace(CODE, 'Code').split('|'))
        open = ''
        continue
      }
      if (/^\s*(?:[-*] |\d+\. |#+ |> )/.test(line)) {
        parts.push(open)
        open = ''
      }
      open += ` ${line.replace(/^\s*(?:[-*] |\d+\. |#+ |> )/, '')}`
    }
    parts.push(open)
  }
  return parts
    .map((part) => part.replace(CODE, 'Code').replace(/[*_[\]]/g, ''))
    .flatMap((part) => part.split(/(?<=[.!?][)"']?)\s+(?=["'(]?[A-Z0-9])|(?<=:)\s*$/))
    .map((sentence) => sentence.trim())
    .filter((sentence) => wordsOf(sentence) > 0)
}

export const wordsOf = (sentence) => sentence.split(/\s+/).filter((word) => /[A-Za-z0-9]/.test(word)).length

/** Words of table cells and headings that are no sentences would flatter the mean: what has less than four words is left out. */
export function lengths(markdown) {
  const counts = sentencesOf(markdown)
    .map(wordsOf)
    .filter((count) => count > 3)
  const sum = counts.reduce((total, count) => total + count, 0)
  return {
    sentences: counts.length,
    mean: counts.length === 0 ? 0 : sum / counts.length,
    longShare: counts.length === 0 ? 0 : counts.filter((count) => count > LONG).length / counts.length,
  }
}

/** Words of README and the published pages as `wc -w` counts them: code included, comments left out. */
function publishedWords() {
  const docs = readdirSync(join(root, 'docs'), { recursive: true }).map((name) => `docs/${name}`)
  const all = ['README.md', ...docs].filter((name) => name.endsWith('.md') && !name.includes('internals'))
  const wordsIn = (page) =>
    readFileSync(join(root, page), 'utf8')
      .replace(/<!--[\s\S]*?-->/g, '')
      .split(/\s+/)
  return all.reduce((sum, page) => sum + wordsIn(page).filter(Boolean).length, 0)
}

/** Every page that a user may read. */
export function pages() {
  const found = ['README.md', 'CHANGELOG.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md']
  for (const folder of ['docs', 'docs/internals'])
    if (existsSync(join(root, folder)))
      for (const name of readdirSync(join(root, folder)))
        if (name.endsWith('.md')) found.push(`${folder}/${name}`)
  return found
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const named = process.argv.slice(2)
  console.log('mean  >25 words  sentences  page')
  for (const page of named.length > 0 ? named : pages()) {
    const { sentences, mean, longShare } = lengths(readFileSync(join(root, page), 'utf8'))
    const share = `${(longShare * 100).toFixed(1)} %`
    console.log(
      `${mean.toFixed(1).padStart(4)}  ${share.padStart(9)}  ${String(sentences).padStart(9)}  ${page}`,
    )
  }
  console.log(`${publishedWords()} words in README.md and docs, without docs/internals`)
}
