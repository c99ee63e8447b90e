// A real coding agent under watch, offline: pi (a dev-dependency of this project) asks a scripted model, which has it call a tool.
// Its answer is printed as it comes.
//
//   node examples/coding-agent.mjs
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startModelServer } from '../fixtures/model-server.mjs'
import { spawn } from 'sheepdog'

const pi = fileURLToPath(
  new URL('../node_modules/@mariozechner/pi-coding-agent/dist/cli.js', import.meta.url),
)
const server = await startModelServer({
  script: [{ shell: 'uname -s' }, { text: 'It is a fine system, says the scripted model.', everyMs: 50 }],
})
const home = await mkdtemp(join(tmpdir(), 'sheepdog-example-'))

try {
  await mkdir(join(home, '.pi/agent'), { recursive: true })
  const models = [{ id: 'scripted-model', contextWindow: 200_000, maxTokens: 8000 }]
  const scripted = { baseUrl: `${server.url}/v1`, api: 'openai-completions', apiKey: 'none-needed', models }
  await writeFile(join(home, '.pi/agent/models.json'), JSON.stringify({ providers: { scripted } }))

  const words = [
    '--mode',
    'json',
    '--provider',
    'scripted',
    '--model',
    'scripted-model',
    'Which system is this?',
  ]
  const agent = spawn(process.execPath, [pi, ...words], {
    cwd: home,
    env: { HOME: home, TMPDIR: home, PI_OFFLINE: '1' },
    idleTimeoutMs: 60_000,
  })
  for await (const event of agent.json({
    types: ['tool_execution_start', 'tool_execution_end', 'message_update'],
  })) {
    if (event.type === 'tool_execution_start') console.log(`tool ${event.toolName}: ${event.args.command}`)
    if (event.type === 'tool_execution_end') console.log(event.result.content[0].text.trimEnd())
    const { type, delta } = event.assistantMessageEvent ?? {}
    if (type === 'text_delta') process.stdout.write(delta)
  }
  const { exitCode, durationMs } = await agent.result
  console.log(`\nthe agent exited with ${exitCode} after ${(durationMs / 1000).toFixed(1)} s`)
} finally {
  await server.close()
  await rm(home, { recursive: true, force: true })
}
