// `npm run recording`: docs/recording.svg, made of two real runs on a real terminal: a coding agent (pi) at work with a scripted model,
// and a program that falls silent and leaves a process behind. Only the typing is played.
import { spawn } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { startModelServer } from '../../fixtures/model-server.mjs'
import { fail, root } from '../step.mjs'
import { renderPicture } from './picture.mjs'
import { Screen } from './screen.mjs'

const columns = 96
const typedMs = 45
/** Two pictures within so long are one. */
const blinkMs = 120

const script = [
  { calls: [{ name: 'ls', input: { path: '.' } }], delayMs: 700 },
  { calls: [{ name: 'read', input: { path: 'flock.txt' } }], delayMs: 900 },
  { text: 'Three sheep: Ada eats, Bo sleeps, and Cy looks at the gate.\n', everyMs: 60 },
]
const stalling = `#!/bin/sh
echo "reading the data"
sleep 1
echo "epoch 1 of 10"
setsid sleep 600 > /dev/null 2>&1 &
sleep 600
`
const scenes = [
  'sheepdog agent pi "Count the sheep, please." --plan --model scripted/scripted-model',
  'sheepdog run --idle 4s -- ./train',
]

const folder = mkdtempSync(join(tmpdir(), 'sheepdog-recording-'))
const server = await startModelServer()
try {
  const env = prepare(folder, `${server.urlFor(script, 'recording')}/v1`)
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
    'A coding agent under watch, and a program that falls silent: it is killed with all that it started'
  const picture = renderPicture(frames, { columns, title })
  writeFileSync(join(root, 'docs', 'recording.svg'), picture)
  console.log(`docs/recording.svg: ${frames.length} pictures, ${(picture.length / 1000).toFixed(1)} kB`)
} finally {
  await server.close()
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
}

/** The folder that it is all done in: the command and the agent on PATH, the agent's model, the silent program. */
function prepare(folder, baseUrl) {
  const [bin, home, work] = ['bin', 'home', 'work'].map((name) => join(folder, name))
  for (const path of [bin, work, join(home, '.pi', 'agent')]) mkdirSync(path, { recursive: true })
  symlinkSync(join(root, 'cli', 'sheepdog.js'), join(bin, 'sheepdog'))
  chmodSync(join(root, 'cli', 'sheepdog.js'), 0o755)
  symlinkSync(join(root, 'node_modules', '.bin', 'pi'), join(bin, 'pi'))
  const models = [{ id: 'scripted-model', contextWindow: 200_000, maxTokens: 8000 }]
  const scripted = { baseUrl, api: 'openai-completions', apiKey: 'none', models }
  writeFileSync(join(home, '.pi', 'agent', 'models.json'), JSON.stringify({ providers: { scripted } }))
  writeFileSync(join(work, 'flock.txt'), 'Ada eats\nBo sleeps\nCy looks at the gate\n')
  writeFileSync(join(work, 'train'), stalling, { mode: 0o755 })
  const PATH = [bin, dirname(process.execPath), '/usr/local/bin', '/usr/bin', '/bin'].join(delimiter)
  return {
    PATH,
    HOME: home,
    TMPDIR: folder,
    PWD: work,
    TERM: 'xterm-256color',
    PI_OFFLINE: '1',
    LANG: 'C.UTF-8',
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
