// A folder as the root of a program's file system, with this machine's kernel. All mounts are gone when the program has ended.
import { spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { has } from './cache.mjs'

/** A command that has not ended by then is killed. */
const TIMEOUT_MS = 1_500_000

const isRoot = process.getuid?.() === 0
/** Without root, a user namespace gives the right to mount; some systems forbid it. */
const words = [...(isRoot ? [] : ['--map-root-user']), '--mount', '--propagation', 'private']

export const lacksChroot = () =>
  has('unshare', ...words, 'true') ? [] : ['root, or user namespaces (unshare of util-linux)']

/**
 * Runs a command in `folder` as the root, and returns what it printed on stdout.
 * @param {string} folder
 * @param {string[]} command
 * @param {Record<string, string>} env the whole environment
 */
export function runInRoot(folder, command, env) {
  for (const name of ['proc', 'dev', 'tmp']) mkdirSync(join(folder, name), { recursive: true })
  const script = 'mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && exec chroot "$0" "$@"'
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`)
  const inside = ['/bin/env', '-i', ...variables, ...command]
  const ended = spawnSync('unshare', [...words, 'sh', '-c', script, folder, ...inside], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    maxBuffer: 1e9,
    timeout: TIMEOUT_MS,
    killSignal: 'SIGKILL',
  })
  return {
    output: ended.stdout ?? '',
    end: ended.error?.message ?? ended.signal ?? `exit status ${ended.status}`,
  }
}
