// A client of the protocol in a few lines: `node plain.mjs '["PROGRAM", "ARGUMENT", ...]' [MODE]`. It opens one session in its working
// directory, sets this mode, sends one prompt, allows what it is asked, and then waits to be killed. Prints TOOL for each tool call that it hears of,
// and how the prompt ended.
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'

const [program, ...args] = JSON.parse(process.argv[2])
const agent = spawn(program, args, { stdio: ['pipe', 'pipe', 'ignore'] })
agent.on('exit', (code, signal) => console.log(`EXIT ${signal ?? code}`))

const waiting = new Map()
let next = 0
const send = (message) => agent.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
function request(method, params) {
  const id = next++
  send({ id, method, params })
  return new Promise((resolve) => waiting.set(id, resolve))
}

createInterface({ input: agent.stdout }).on('line', (line) => {
  const { id, method, params, ...answer } = JSON.parse(line)
  if (method === undefined) waiting.get(id)?.(answer)
  else if (method === 'session/request_permission') {
    const { optionId } = params.options.find(({ kind }) => kind === 'allow_once') ?? params.options[0]
    send({ id, result: { outcome: { outcome: 'selected', optionId } } })
  } else if (id !== undefined) send({ id, error: { code: -32601, message: 'unknown method' } })
  else if (params?.update?.sessionUpdate?.startsWith('tool_call')) console.log('TOOL')
})

const clientInfo = { name: 'plain', version: '1.0.0' }
await request('initialize', { protocolVersion: 1, clientInfo, clientCapabilities: {} })
const { result, error } = await request('session/new', { cwd: process.cwd(), mcpServers: [] })
if (error) console.log(`ERROR ${JSON.stringify(error)}`)
else {
  const { sessionId } = result
  if (process.argv[3]) await request('session/set_mode', { sessionId, modeId: process.argv[3] })
  const prompt = [{ type: 'text', text: 'go' }]
  const ended = await request('session/prompt', { sessionId, prompt })
  console.log(`END ${JSON.stringify(ended)}`)
}
