// What was made from exactly these files need not be made again.
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { root } from './step.mjs'

function* filesBelow(path) {
  if (!statSync(path).isDirectory()) {
    yield path
    return
  }
  for (const name of readdirSync(path).sort()) yield* filesBelow(join(path, name))
}

/**
 * A hash of names and contents of files, and of words that also decide what comes out.
 * @param {string[]} paths files and folders of the project
 */
export function fingerprint(paths, words = []) {
  const hash = createHash('sha256').update(JSON.stringify(words))
  for (const path of paths) {
    if (!existsSync(join(root, path))) continue
    for (const file of filesBelow(join(root, path))) {
      const bytes = readFileSync(file)
      hash.update(`${file.slice(root.length)} ${bytes.length}\n`).update(bytes)
    }
  }
  return hash.digest('hex')
}

export function isStamped(file, wanted) {
  return existsSync(file) && readFileSync(file, 'utf8') === wanted
}

export function stamp(file, value) {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, value)
}
