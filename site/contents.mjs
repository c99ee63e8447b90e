// The contents of the documentation: the groups of pages in docs/index.md, which has the order and the titles.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export const docs = join(import.meta.dirname, '../docs')

/** `[{ text, items: [{ text, link }] }]`, as a sidebar takes it. `link` is a page below docs, with its `.md`. */
export function contents(markdown = readFileSync(join(docs, 'index.md'), 'utf8')) {
  const [, ...groups] = markdown.split(/^## /m)
  return groups.map((group) => ({
    text: group.slice(0, group.indexOf('\n')),
    items: [...group.matchAll(/^- \[([^\]]+)\]\(([^)]+)\)/gm)].map(([, text, link]) => ({ text, link })),
  }))
}

/** The id of a heading, as the repository's own pages have it: links work in both. */
export const slug = (title) =>
  title
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/\s/g, '-')
