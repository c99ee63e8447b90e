// Cases that need no system of a kind: their programs are Node.js.
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { RuntimeClient, complete, equal, js, replayRecord, run, serveRuntime, spawn, work } from './tools.mjs'

export const portableCases = {
  async run() {
    const result = await js('console.log("out"); console.error("err"); process.exitCode = 3')
    equal([result.stdout, result.stderr, result.exitCode], ['out\n', 'err\n', 3])
    return result.containment
  },
  async lines() {
    const seen = []
    const program = 'console.log("a"); console.error("b"); process.stdout.write("c")'
    for await (const { stream, text } of spawn(process.execPath, ['-e', program])) seen.push(stream + text)
    equal(
      seen.sort((left, right) => (left < right ? -1 : 1)),
      ['stderrb', 'stdouta', 'stdoutc'],
    )
  },
  async json() {
    const seen = []
    const program = `console.log('{"type":"a","n":1}\\nnoise\\n{"type":"b"}')`
    for await (const value of spawn(process.execPath, ['-e', program]).json({ types: ['a'] }))
      seen.push(value)
    equal(seen, [{ type: 'a', n: 1 }])
  },
  async input() {
    const text = 'x'.repeat(1 << 20)
    equal((await js('process.stdin.pipe(process.stdout)', { input: text })).stdout.length, text.length)
  },
  async 'output in a file'() {
    const child = spawn(process.execPath, ['-e', 'console.log("saved")'])
    await child.saveOutput({ stdout: join(work, 'saved') })
    equal(readFileSync(join(work, 'saved'), 'utf8'), 'saved\n')
  },
  async record() {
    const { record } = await js('console.log("recorded")', { record: join(work, 'records') })
    const { start, unfinished } = await replayRecord(record.folder)
    const output = readFileSync(join(record.folder, 'stdout'), 'utf8')
    equal([start.kind, unfinished, output], ['run', null, 'recorded\n'])
  },
  async 'the command'() {
    const command = join(process.env.SHEEPDOG_PACKAGE, 'cli/sheepdog.js')
    const program = [process.execPath, '-e', 'console.log("hi"); process.exitCode = 3']
    const { stdout, exitCode } = await run(process.execPath, [command, 'run', '--', ...program])
    equal([stdout, exitCode], ['hi\n', 3])
  },
  async 'a runtime and its client'() {
    const server = await serveRuntime({ port: 0 })
    const client = await RuntimeClient.connect(server.url)
    const { results } = await client.executeCommands(['echo "hello"&& exit 3'])
    await client.close()
    await server.close()
    equal(results[0].exitCode, 3)
  },
  async 'a model call'() {
    const answer = { id: '1', choices: [{ index: 0, delta: { content: 'hello' }, finish_reason: 'stop' }] }
    const server = createServer((_, response) => {
      response.setHeader('content-type', 'text/event-stream')
      response.end(`data: ${JSON.stringify(answer)}\n\ndata: [DONE]\n\n`)
    })
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
    const baseUrl = `http://127.0.0.1:${server.address().port}/v1`
    const messages = [{ role: 'user', content: 'hi' }]
    const { text } = await complete({ baseUrl, model: 'm', messages }).finally(() => server.close())
    equal(text, 'hello')
  },
}
