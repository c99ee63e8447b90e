// A step of a command of package.json: shown, and the end of the command when it fails.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = dirname(dirname(fileURLToPath(import.meta.url)))

/** Ends the command with one clear line. */
export function fail(message) {
  console.error(`sheepdog: ${message}`)
  process.exit(1)
}

/** Runs a program in the project's folder with its output shown; ends the command when it fails. */
export function step(title, command, args, options = {}) {
  console.log(`> ${title}`)
  const ended = spawnSync(command, args, { cwd: root, stdio: 'inherit', ...options })
  if (ended.error) fail(`${title}: ${command} could not be started (${ended.error.message})`)
  if (ended.status !== 0) fail(`${title} failed (${ended.signal ?? `exit status ${ended.status}`})`)
}

/** The target triple that rustc builds for on this machine. */
export function hostTriple() {
  const { stdout } = spawnSync('rustc', ['-vV'], { encoding: 'utf8' })
  return /^host: (.*)$/m.exec(stdout)?.[1] ?? fail('rustc does not tell its host triple')
}

/**
 * Runs a program beside others.
 * @param {{isShown?: boolean, cwd?: string, env?: NodeJS.ProcessEnv}} options isShown: the output goes to the terminal and is
 * not returned; cwd: the project's folder by default
 * @returns {Promise<{isGood: boolean, output: string}>} when it has ended; the output of both streams
 */
export function runBeside(command, args, { isShown = false, cwd = root, env } = {}) {
  return new Promise((resolve) => {
    const stream = isShown ? 'inherit' : 'pipe'
    const child = spawn(command, args, { cwd, env, stdio: ['ignore', stream, stream] })
    let output = ''
    child.stdout?.setEncoding('utf8').on('data', (text) => (output += text))
    child.stderr?.setEncoding('utf8').on('data', (text) => (output += text))
    child.once('error', ({ message }) => resolve({ isGood: false, output: `${command}: ${message}\n` }))
    child.once('close', (status) => resolve({ isGood: status === 0, output }))
  })
}

/** Packages whose program has another name than they. */
const homes = { tsc: 'typescript', napi: '@napi-rs/cli', attw: '@arethetypeswrong/cli' }

/**
 * The program of a package. Not the link in node_modules/.bin: two packages bring a `tsc` (types.mjs needs the last TypeScript
 * that is written in JavaScript).
 */
export function bin(name) {
  const folder = join(root, 'node_modules', homes[name] ?? name)
  if (!existsSync(folder)) fail(`${name} is not installed: run \`npm install\``)
  const { bin } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  return join(folder, typeof bin === 'string' ? bin : bin[name])
}
