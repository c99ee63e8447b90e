// Pi, the coding agent, as npm installs it, at work in a folder of its own with a scripted model: its events are shown as they
// come.
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { agents, pointAt } from '../../fixtures/agents.mjs'
import { eventLines } from './event.mjs'
import { markName } from './marked.mjs'
import { LiveLine, fitWidth, liveState, showDuration, spawn } from './sheepdog.mjs'

const packageFolder = fileURLToPath(new URL(`../../node_modules/${agents.pi.package}`, import.meta.url))

/**
 * One turn, whose processes carry the mark. Resolves with what is known at its end: `{ work, result?, error?, lines, events, longestSilenceMs }`;
 * `error` is set when the watchdog or the user ended it.
 */
export async function agentTurn({ folder, server, signal }, { name, prompt, script, idleTimeoutMs, mark }) {
  const { version, bin } = JSON.parse(await readFile(join(packageFolder, 'package.json'), 'utf8'))
  const [home, temp, work] = ['home', 'tmp', 'work'].map((part) => join(folder, name, part))
  await Promise.all([temp, work].map((path) => mkdir(path, { recursive: true })))
  const { model, inheritEnv, env } = pointAt('pi', server.urlFor(script, name), { home, cwd: work })
  const [provider, id] = model.split('/')
  const words = ['--mode', 'json', '--provider', provider, '--model', id, prompt]
  const agent = spawn(process.execPath, [join(packageFolder, bin.pi), ...words], {
    cwd: work,
    inheritEnv,
    env: { ...env, TMPDIR: temp, [markName]: mark },
    idleTimeoutMs,
    timeoutMs: 120_000,
    signal,
  })
  const turn = { work, lines: 0, events: [], longestSilenceMs: 0 }
  const view = openView(`pi ${version}`, idleTimeoutMs)
  view.show('prompt', prompt)
  try {
    for await (const { stream, text } of agent) {
      turn.lines++
      turn.longestSilenceMs = Math.max(turn.longestSilenceMs, view.silenceMs())
      const event = stream === 'stdout' ? parse(text) : undefined
      if (event) turn.events.push(event)
      view.onLine(text, event)
    }
    turn.result = await agent.result
  } catch (error) {
    turn.error = error
    turn.result = error.result
    view.onCutOff(error)
  } finally {
    view.close()
  }
  return turn
}

function parse(text) {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Lines with the time they came at, and at the foot the live line where there is a terminal. */
function openView(label, idleTimeoutMs) {
  const startedMs = performance.now()
  const state = Object.assign(liveState(label, startedMs), { idleLimitMs: idleTimeoutMs })
  const live = LiveLine.on(process.stderr, state)
  const lines = eventLines()
  const show = (word, text) => {
    live?.clear()
    const columns = (process.stdout.columns ?? 120) - 20
    for (const line of text.trimEnd().split('\n')) {
      console.log(
        `${showDuration(performance.now() - startedMs).padStart(8)}  ${word.padEnd(8)} ${fitWidth(line, columns)}`,
      )
    }
    live?.draw()
  }
  live?.draw()
  return {
    show,
    silenceMs: () => performance.now() - state.lastMs,
    onLine(text, event) {
      state.lastMs = performance.now()
      state.lines++
      state.bytes += Buffer.byteLength(text) + 1
      const { shown, live: last, tool } = event ? lines.of(event) : { shown: [['noise', text]] }
      state.last = last ?? state.last
      state.tool = tool
      for (const [word, words] of shown) show(word, words)
      live?.draw()
    },
    onCutOff({ code, message, idleTimeoutMs }) {
      if (lines.rest()) show('says', `${lines.rest()} ...`)
      const silent =
        code === 'PROCESS_IDLE' &&
        `silent for ${showDuration(idleTimeoutMs)}: killed, with all that it started`
      show('stopped', silent || message)
    },
    close: () => live?.close(),
  }
}
