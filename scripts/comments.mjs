// `node scripts/comments.mjs [FOLDER ...]`: comments whose first word is a bare who, what, of, whom or where. Such a comment has no
// subject, so its reader has to guess what it is about. Without a FOLDER, prints how many each folder has.
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { root } from './step.mjs'

const BARE = /^\s*(?:\/\/[/!]?|\/\*\*?|\*)\s+(?:who|what|of|whom|where)\b/i
/** A line of a comment that the next line may continue. */
const OPEN = /^\s*(?:\/\/[/!]?|\/\*\*?|\*)\s+.*[^.:!?|\s]\s*$/

/** Line numbers of the comments in a source text that begin so. A line that continues a sentence is not the beginning of a comment. */
export function bareComments(source) {
  const lines = source.split('\n')
  return lines.flatMap((line, index) =>
    BARE.test(line) && !OPEN.test(lines[index - 1] ?? '') ? [index + 1] : [],
  )
}

/** All of them below a folder, as `path:line`. */
export function bareCommentsBelow(folder) {
  const names = readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
  return names
    .filter((name) => /\.(?:rs|ts|js)$/.test(name) && !/generated/.test(name))
    .sort()
    .flatMap((name) => {
      const path = `${folder}/${name}`
      return bareComments(readFileSync(join(root, path), 'utf8')).map((line) => `${path}:${line}`)
    })
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const named = process.argv.slice(2)
  for (const folder of named) console.log(bareCommentsBelow(folder).join('\n'))
  if (named.length === 0)
    for (const folder of ['lib', 'cli', 'src', 'crates'])
      console.log(`${String(bareCommentsBelow(folder).length).padStart(4)}  ${folder}`)
}
