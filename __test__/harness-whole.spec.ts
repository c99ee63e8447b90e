// CLIs that end by `process.exit` while their pipe is full: nothing of what they printed is lost.
import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, it } from 'vitest'
import { Harness, type ProviderName } from '..'
import { folder } from './played-agent'

/** The CLI as npm lays it out, printing these lines at once, and gone. */
function installed(provider: ProviderName, script: string, lines: object[]): string {
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('')
  const file = join(folder, provider, 'node_modules', script)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(join(dirname(file), 'package.json'), '{"type":"module"}')
  writeFileSync(`${file}.txt`, text)
  writeFileSync(
    file,
    `#!/usr/bin/env node
     import { readFileSync } from 'node:fs'
     process.stdout.write(readFileSync(${JSON.stringify(`${file}.txt`)}, 'utf8'))
     process.exit(0)`,
  )
  chmodSync(file, 0o755)
  const link = join(folder, provider, 'program')
  symlinkSync(file, link)
  return link
}

/** Twice what any pipe of a user's may hold. */
const output = 'x'.repeat(3 << 20)

it('gemini', async () => {
  const binary = installed('gemini', '@google/gemini-cli/bundle/gemini.js', [
    { type: 'init', session_id: 's-1', model: 'm' },
    { type: 'tool_use', tool_name: 'run_shell_command', tool_id: 't', parameters: { command: 'x' } },
    { type: 'tool_result', tool_id: 't', status: 'success', output },
    { type: 'message', role: 'assistant', content: 'Read.', delta: true },
    { type: 'result', status: 'success', stats: { input_tokens: 1, output_tokens: 1 } },
  ])
  const result = await new Harness({ provider: 'gemini', binary, cwd: folder }).run('Read it.')
  expect(result).toMatchObject({ text: 'Read.', toolCalls: 1, attempts: 1 })
})

it('qwen', async () => {
  const message = (role: string, content: object) => ({ type: role, message: { role, content: [content] } })
  const binary = installed('qwen', '@qwen-code/qwen-code/cli.js', [
    { type: 'system', subtype: 'init', session_id: 's-1' },
    message('assistant', { type: 'tool_use', id: 't', name: 'run_shell_command', input: {} }),
    message('user', { type: 'tool_result', tool_use_id: 't', is_error: false, content: output }),
    message('assistant', { type: 'text', text: 'Read.' }),
    { type: 'result', subtype: 'success', is_error: false, result: 'Read.', session_id: 's-1', num_turns: 2 },
  ])
  const result = await new Harness({ provider: 'qwen', binary, cwd: folder }).run('Read it.')
  expect(result).toMatchObject({ text: 'Read.', toolCalls: 1, attempts: 1 })
})
