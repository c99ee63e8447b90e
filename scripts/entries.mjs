// The entries beside the root.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './step.mjs'

/** Names below `sheepdog/`, from the exports of package.json. */
export const entries = Object.keys(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).exports)
  .map((path) => path.replace('./', ''))
  .filter((name) => /^\w+$/.test(name))
