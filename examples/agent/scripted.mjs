// Stands in for a coding agent in these examples: prints what the Codex CLI prints of a turn, without a network.
// The real one is used where `binary` is left out.
const words = process.argv.slice(2)
const wantsSchema = words.includes('--output-schema')
const print = (event) => console.log(JSON.stringify(event))
const pause = () => new Promise((resolve) => setTimeout(resolve, 100))

print({ type: 'thread.started', thread_id: 'thread-1' })
const command = {
  id: 'tool-1',
  type: 'command_execution',
  command: 'ls',
  aggregated_output: '',
  exit_code: null,
}
print({ type: 'item.started', item: { ...command, status: 'in_progress' } })
await pause()
const output = { aggregated_output: 'flock.txt\n', exit_code: 0, status: 'completed' }
print({ type: 'item.completed', item: { ...command, ...output } })
await pause()
const text = wantsSchema ? '{"files":["flock.txt"]}' : 'There is one file: flock.txt.'
print({ type: 'item.completed', item: { id: 'text-1', type: 'agent_message', text } })
print({ type: 'turn.completed', usage: { input_tokens: 120, cached_input_tokens: 20, output_tokens: 8 } })
