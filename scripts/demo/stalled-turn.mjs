// The turn that would never end: a tool leaves a helper behind in a session of its own, then the model stalls. The watchdog ends
// it, and the process table shows that nothing is left.
import { randomUUID } from 'node:crypto'
import { agentTurn } from './agent.mjs'
import { markedProcesses } from './marked.mjs'
import { fitWidth, showDuration } from './sheepdog.mjs'

// Out of the agent's process group and session, where there is a program that can do that. The shell waits until it runs.
const helper = `
  $(command -v setsid) sh -c 'echo here > helper; exec tail -f /dev/null' > /dev/null 2>&1 &
  until [ -s helper ]; do sleep 0.1; done
  echo "a helper guards the gate"
`.trim()
const script = [{ shell: helper }, { stall: true }]
const shortestIdleMs = 4000
const longestIdleMs = 20_000

export async function stalledTurn(place, longestSilenceMs) {
  // Short, but longer than anything that a healthy turn needs on this machine.
  const wanted = Math.ceil((4 * longestSilenceMs) / 500) * 500
  const idleTimeoutMs = Math.min(longestIdleMs, Math.max(shortestIdleMs, wanted))
  console.log(
    `(The good turn was never silent for more than ${showDuration(longestSilenceMs)}: ${showDuration(idleTimeoutMs)} are allowed now.)\n`,
  )
  const mark = randomUUID()
  let during = []
  // The server holds the call that it will never answer: this is the tree that has to go.
  const stalled = place.server
    .next(({ step }) => step.stall)
    .then((request) => {
      during = markedProcesses(mark)
      return request
    })
  const turn = await agentTurn(place, {
    name: 'stalled',
    prompt: 'Guard the gate, please.',
    script,
    idleTimeoutMs,
    mark,
  })
  const after = markedProcesses(mark)
  show('Alive when the model fell silent', during)
  show('Alive now', after)
  return { what: 'pi, its model stalls', ...turn, faults: await check(turn, during, after, stalled) }
}

function show(title, processes) {
  console.log(`\n${title}:${processes.length === 0 ? ' none' : ''}`)
  for (const { pid, command } of processes) {
    console.log(`  ${String(pid).padStart(7)}  ${fitWidth(command, (process.stdout.columns ?? 100) - 12)}`)
  }
}

async function check({ error, events }, during, after, stalled) {
  const faults = []
  if (error?.code !== 'PROCESS_IDLE') {
    faults.push(`the watchdog did not end the stalled turn: ${error?.message ?? 'it ended by itself'}`)
  }
  if (!events.some(({ type }) => type === 'tool_execution_end'))
    faults.push('the tool call before the stall did not happen')
  if (!during.some(({ command }) => command.startsWith('tail ')))
    faults.push('the helper was not found while it was alive')
  if (after.length > 0) faults.push(`processes are left: ${after.map(({ pid }) => pid).join(', ')}`)
  // With the agent dead its call hangs up; had it never been made, there is nothing to wait for.
  if (during.length === 0) faults.push('the model was never asked for the answer that stalls')
  else if ((await (await stalled).closed) !== 'hung up') faults.push('the call to the model is still open')
  return faults
}
