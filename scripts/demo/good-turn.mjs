// The turn where all goes well: a tool call, its output, an answer that comes word by word.
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { agentTurn } from './agent.mjs'
import { textOf } from './event.mjs'
import { markedProcesses } from './marked.mjs'

const answer = `Three sheep are in the meadow:
the first eats, the second sleeps,
and the third looks at the gate.
`
const script = [
  { shell: 'for name in Ada Bo Cy; do echo "sheep $name" | tee -a flock.txt; sleep 0.4; done' },
  { text: answer, everyMs: 120 },
]
/** Nothing of the good turn is this silent, however slow the machine. */
const idleTimeoutMs = 30_000

export async function goodTurn(place) {
  const mark = randomUUID()
  const turn = await agentTurn(place, {
    name: 'good',
    prompt: 'Count the sheep, please.',
    script,
    idleTimeoutMs,
    mark,
  })
  return { what: 'pi, a good turn', ...turn, faults: await check(turn, mark) }
}

async function check({ work, error, result, events }, mark) {
  if (error) return [`the good turn was stopped: ${error.message}`]
  const faults = []
  const last = events.findLast(
    ({ type, message }) => type === 'message_end' && message.role === 'assistant',
  )?.message
  if (result.exitCode !== 0)
    faults.push(`the agent exited with ${result.exitCode ?? result.signal}: ${result.stderr.slice(-500)}`)
  if (last?.stopReason !== 'stop' || textOf(last) !== answer)
    faults.push('the answer of the model did not come home')
  const flock = await readFile(join(work, 'flock.txt'), 'utf8').catch(() => '')
  if (flock !== 'sheep Ada\nsheep Bo\nsheep Cy\n')
    faults.push('the tool call left no trace in the work folder')
  const left = markedProcesses(mark)
  if (left.length > 0)
    faults.push(`processes are left of the good turn: ${left.map(({ pid }) => pid).join(', ')}`)
  return faults
}
