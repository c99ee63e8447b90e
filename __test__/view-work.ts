// The work of an agent that the page shows: lines of codex, and the time between them.
import { said, session } from './played-agent'

let number = 0
/** A command of codex: when it begins, so long, what it says. */
export function tool(words: string, wait: number, output: string, exit = 0): object[] {
  const item = {
    id: `c${number++}`,
    type: 'command_execution',
    command: words,
    aggregated_output: '',
    exit_code: null,
  }
  const end = { ...item, aggregated_output: output, exit_code: exit, status: exit ? 'failed' : 'completed' }
  const line = (type: string, item: object) => ({ line: { type, item } })
  return [line('item.started', { ...item, status: 'in_progress' }), { wait }, line('item.completed', end)]
}
export const think = (text: string) => ({
  line: { type: 'item.completed', item: { id: 'r', type: 'reasoning', text } },
})

export const tests = `${Array.from({ length: 12 }, (_, count) => `  ✓ parses line ${count}`).join('\n')}\n  ✗ keeps the session`
export const work = [
  session,
  think('The failing tests first.'),
  { wait: 150 },
  said('I will run the tests first.'),
  ...tool('npm test', 900, tests, 1),
  { wait: 150 },
  think('The id of the session is not passed on.'),
  ...tool('sed -n 1,80p src/resume.ts', 120, 'export function resume(id) {\n  return open(id)\n}'),
  ...tool('apply_patch src/resume.ts', 150, 'Done!'),
]
