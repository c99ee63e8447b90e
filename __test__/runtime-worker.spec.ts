// What a worker thread began ends with it.
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { expect, it } from 'vitest'
import { RuntimeClient, serveRuntime } from '../entries/runtime.js'

const library = join(import.meta.dirname, '../entries/runtime.js')

/** A worker that runs this body with the package as `sheepdog`, and the first word it says. */
async function worker(body: string): Promise<{ said: string; end(): Promise<unknown> }> {
  const code = `const sheepdog = require(${JSON.stringify(library)})
    const say = (word) => require('node:worker_threads').parentPort.postMessage(word)
    ;(async () => { ${body} })()`
  const thread = new Worker(code, { eval: true })
  const said = await new Promise<string>((resolve, reject) => {
    thread.once('message', resolve)
    thread.once('error', reject)
  })
  return { said, end: () => thread.terminate() }
}

it('a server ends with its worker, and its clients are told', async () => {
  const { said: url, end } = await worker(`
    const server = await sheepdog.serveRuntime({ port: 0, handler: { run: () => new Promise(() => {}) } })
    say(server.url)`)
  const client = await RuntimeClient.connect(url)
  const asked = client.query('x', { systemPrompt: '', model: '' }).catch((error) => error.code)
  await client.executeCommands([]).catch(() => {})
  await end()
  expect(await asked).toMatch(/^RUNTIME_(FAILED|CLOSED)$/)
  await client.close()
  await expect
    .poll(() =>
      RuntimeClient.connect(url).then(
        (late) => late.close().then(() => 'connected'),
        (error) => error.code,
      ),
    )
    .toBe('RUNTIME_UNREACHABLE')
})

it('a session ends with the worker of its client, and what it runs', async () => {
  const stopped: Promise<void>[] = []
  await using server = await serveRuntime({
    port: 0,
    handler: {
      run: ({ signal }) =>
        new Promise((_, reject) => {
          stopped.push(
            new Promise((resolve) =>
              signal.addEventListener('abort', () => {
                reject(signal.reason)
                resolve()
              }),
            ),
          )
        }),
    },
  })
  const { end } = await worker(`
    const client = await sheepdog.RuntimeClient.connect(${JSON.stringify(server.url)})
    client.query('x', { systemPrompt: '', model: '' }).catch(() => {})
    say('asked')`)
  await expect.poll(() => stopped.length).toBe(1)
  await end()
  await stopped[0]
})
