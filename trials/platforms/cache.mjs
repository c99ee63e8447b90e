// The cache of `npm run trial -- platforms`: each thing is fetched or built once. It has a folder of its own.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fail } from '../../scripts/step.mjs'

/** About 4 GB when all parts have run. */
export const cache = process.env.SHEEPDOG_PLATFORMS || join(homedir(), '.cache', 'sheepdog-platforms')

/**
 * The folder `name` of the cache. `make` fills it, unless it was filled from the same inputs before.
 * @param {string} name
 * @param {unknown} inputs what the content depends on
 * @param {(folder: string) => void} make
 */
export function once(name, inputs, make) {
  const folder = join(cache, name)
  // Written last, so that an interrupted run leaves nothing that passes for whole.
  const stamp = `${folder}.made`
  const wanted = JSON.stringify(inputs)
  if (existsSync(stamp) && existsSync(folder) && readFileSync(stamp, 'utf8') === wanted) return folder
  console.log(`> fetching or building ${name}`)
  rmSync(stamp, { force: true })
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  make(folder)
  writeFileSync(stamp, wanted)
  return folder
}

/** Runs a program quietly, and returns what it printed. Its output is shown only when it fails, and the command ends. */
export function quietly(command, args, options = {}) {
  const ended = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 1e9, ...options })
  if (ended.error) fail(`${command} could not be started (${ended.error.message})`)
  if (ended.status !== 0) {
    console.error(ended.stdout + ended.stderr)
    fail(
      `${command} ${args.join(' ').slice(0, 200)} failed (${ended.signal ?? `exit status ${ended.status}`})`,
    )
  }
  return ended.stdout
}

/** Whether a program is there to be started. */
export const has = (command, ...args) =>
  spawnSync(command, args, { stdio: 'ignore', timeout: 60_000 }).status === 0
