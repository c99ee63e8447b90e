// What a stranger's programs do with the installed package, and what they print when all is well.

/** A program, an idle kill, an abort, an iteration, events, a daemon that is left behind, a runtime and its client. */
export const everything = `
import sheepdog, { run, spawn, Harness, replay, SheepdogError } from 'sheepdog'
import { serveRuntime, RuntimeClient } from 'sheepdog/runtime'
const seen = []
const { stdout, exitCode } = await run('sh', ['-c', 'echo hi; exit 3'])
seen.push(stdout.trim(), exitCode)
// As the program changed its environment, whatever engine or test runner keeps it.
process.env.SHEEPDOG_SET = 'set'
process.env.SHEEPDOG_SECRET = 'x'
delete process.env.SHEEPDOG_SECRET
seen.push((await run('sh', ['-c', 'echo $SHEEPDOG_SET-\${SHEEPDOG_SECRET-none}'])).stdout.trim())
let lines = 0
for await (const _ of spawn('seq', ['1000'])) lines++
seen.push(lines)
const code = (error) => (error instanceof SheepdogError ? error.code : String(error))
seen.push(await run('sleep', ['60'], { idleTimeoutMs: 300 }).catch(code))
seen.push(await run('sleep', ['60'], { signal: AbortSignal.timeout(300) }).catch(code))
seen.push((await run('sh', ['-c', '(setsid sleep 600 > /dev/null 2>&1 &)'])).straysKilled)
seen.push(replay('codex', { stdout: '{"type":"thread.started","thread_id":"t"}' }).ok)
try { new Harness({ provider: 'codx' }) } catch (error) { seen.push(code(error)) }
const server = await serveRuntime({ port: 0 })
const client = await RuntimeClient.connect(server.url)
const { results } = await client.executeCommands(['exit 4'])
seen.push(results[0].exitCode, (await client.endSession()).confirmed)
await client.close()
await server.close()
console.log(seen.join(' '))
`
export const everythingPrints =
  'hi 3 set-none 1000 PROCESS_IDLE PROCESS_ABORTED 1 false INVALID_OPTION 4 true'

export const required = `
const { run } = require('sheepdog')
run('echo', ['required']).then(({ stdout }) => process.stdout.write(stdout))
`

/** A host that is killed in the middle; prints what has to be dead then. */
export const killed = `
import { spawn } from 'sheepdog'
const child = spawn('sh', ['-c', 'setsid sh -c "echo \\\\$\\\\$; exec sleep 600" & wait'])
for await (const { text } of child) {
  console.log(text)
  process.kill(process.pid, 'SIGKILL')
}
`

export const typed = `
import { Harness, run, SheepdogError, spawn, type RunResult, type ToolMessage } from 'sheepdog'
const result: RunResult = await run('ls', [], { timeoutMs: 5 })
const text: string = result.stdout
for await (const { text } of spawn('ls')) console.log(text)
const harness = new Harness({ provider: 'codex' })
for await (const event of harness.start('x')) if (event.type === 'tool_start') console.log(event.name)
try {
  await harness.run('x')
} catch (error) {
  if (error instanceof SheepdogError && error.code === 'AGENT_FAILED') console.log(error.kind, error.result?.text)
}
export type Message = ToolMessage
export { text }
`

export const jest = `
const { run } = require('sheepdog')
test('runs', async () => {
  expect((await run('echo', ['jest'])).stdout).toBe('jest\\n')
  process.env.SHEEPDOG_SET = 'set'
  expect((await run('printenv', ['SHEEPDOG_SET'])).stdout).toBe('set\\n')
  await expect(run('no-such-program-anywhere')).rejects.toMatchObject({ code: 'PROCESS_NOT_FOUND' })
})
`

/** Webpack as its users call it. */
export const webpack = `
const webpack = require('webpack')
const [entry, folder, external] = process.argv.slice(2)
const externals = external ? { sheepdog: 'commonjs sheepdog' } : {}
const output = { path: folder, filename: 'packed.cjs' }
webpack({ mode: 'development', devtool: false, target: 'node', entry, output, externals }, (error, stats) => {
  if (error || stats.hasErrors()) throw error ?? new Error(stats.toString())
})
`
