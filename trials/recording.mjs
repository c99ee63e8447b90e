// `npm run trial -- recording`: docs/recording.svg, made of real runs on a real terminal: the README's commands, with Claude Code and a scripted
// model, and a program that falls silent and leaves a process behind. Only the typing is played.
import { spawn } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { pointAt } from '../fixtures/agents.mjs'
import { startModelServer } from '../fixtures/model-server.mjs'
import { pinned } from './agents/install.mjs'
import { fail, root } from '../scripts/step.mjs'
import { renderPicture } from './recording/picture.mjs'
import { Screen } from './recording/screen.mjs'

const columns = 96
const typedMs = 45
/** Two pictures within so long are one. */
const blinkMs = 120

const [folder, server] = [mkdtempSync(join(tmpdir(), 'sheepdog-recording-')), await startModelServer()]
const [bin, home, work] = ['bin', 'home', 'work'].map((name) => join(folder, name))

const read = (name) => ({ name: 'Read', input: { file_path: join(work, name) } })
const script = [
  { calls: [read('package.json')], delayMs: 900 },
  { calls: [read('sheep.test.mjs')], delayMs: 900 },
  { text: 'It counts sheep, and its one test checks that a sleeping sheep counts too.\n', delayMs: 700 },
]
const stalling = `#!/bin/sh
echo "reading the data"
sleep 1
echo "epoch 1 of 10"
setsid sleep 600 > /dev/null 2>&1 &
sleep 600
`
const readme = readFileSync(join(root, 'README.md'), 'utf8')
const scenes = [...readme.match(/^npx sheepdog (run|agent) .*$/gm), 'npx sheepdog run --idle 4s -- ./train']

try {
  const env = prepare(server.urlFor(script, 'recording'))
  const frames = []
  const screen = new Screen(columns)
  let atMs = 0
  const show = (text, afterMs = 0) => {
    atMs += afterMs
    screen.write(text)
    const last = frames.at(-1)
    if (last && atMs - last.atMs < blinkMs) last.rows = screen.rows()
    else frames.push({ atMs: Math.round(atMs), rows: screen.rows() })
  }
  for (const line of scenes) {
    show('\u001b[32m$\u001b[0m ')
    for (const character of line) show(character, typedMs)
    const beganMs = atMs + 300
    await onTerminal(line, env, (text, sinceMs) => show(text, beganMs + sinceMs - atMs))
    show('\r\n', 1500)
  }
  show('\u001b[32m$\u001b[0m ')
  const title =
    'A test run, a coding agent at work, and a program that falls silent: it is killed with all that it started'
  const picture = renderPicture(frames, { columns, title })
  writeFileSync(join(root, 'docs', 'recording.svg'), picture)
  console.log(`docs/recording.svg: ${frames.length} pictures, ${(picture.length / 1000).toFixed(1)} kB`)
} finally {
  await server.close()
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
}

/** The folder that it is all done in: a project with its package, the agent on PATH, the silent program. */
function prepare(url) {
  const local = join(work, 'node_modules', '.bin')
  for (const path of [bin, local, home]) mkdirSync(path, { recursive: true })
  symlinkSync(join(root, 'cli', 'sheepdog.js'), join(local, 'sheepdog'))
  chmodSync(join(root, 'cli', 'sheepdog.js'), 0o755)
  const claude = pinned('claude-code')
  symlinkSync(join(claude.bin, claude.program), join(bin, claude.program))
  const project = {
    name: 'flock',
    private: true,
    type: 'module',
    scripts: { test: 'node --test --test-reporter=spec' },
  }
  writeFileSync(join(work, 'package.json'), `${JSON.stringify(project, null, 2)}\n`)
  writeFileSync(
    join(work, 'sheep.test.mjs'),
    "import test from 'node:test'\n\ntest('a sleeping sheep counts', () => {})\n",
  )
  writeFileSync(join(work, 'train'), stalling, { mode: 0o755 })
  const PATH = [bin, dirname(process.execPath), '/usr/local/bin', '/usr/bin', '/bin'].join(delimiter)
  return {
    ...pointAt('claude-code', url, { home, cwd: work }).env,
    PATH,
    HOME: home,
    TMPDIR: folder,
    PWD: work,
    TERM: 'xterm-256color',
    LANG: 'C.UTF-8',
    npm_config_update_notifier: 'false',
    npm_config_progress: 'false',
  }
}

/** Runs a line of a shell on a terminal; `onText(text, ms)` gets what it shows, and when. */
async function onTerminal(line, env, onText) {
  const terminal = join(root, 'fixtures', 'bin', 'print-in-terminal.py')
  const startedMs = performance.now()
  const child = spawn('python3', [terminal, `${columns}`, 'sh', '-c', line], {
    cwd: env.PWD,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onText('\r\n', 0)
  child.stdout.setEncoding('utf8').on('data', (text) => onText(text, performance.now() - startedMs))
  const [status] = await new Promise((resolve, reject) => {
    child.once('close', (...end) => resolve(end))
    child.once('error', reject)
  })
  if (status !== 0 && status !== 125) fail(`${line} ended with ${status}`)
}
