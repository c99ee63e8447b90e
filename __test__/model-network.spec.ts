// Certificates and proxies that the environment names.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer as createHttpServer, type Server } from 'node:http'
import { createServer as createHttpsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { afterEach, expect, it } from 'vitest'
import { complete } from '../entries/model.js'

const certificate = fileURLToPath(new URL('../fixtures/certificate/loopback.cert.pem', import.meta.url))
const key = fileURLToPath(new URL('../fixtures/certificate/loopback.key.pem', import.meta.url))
const answer = JSON.stringify({ choices: [{ message: { content: 'safe' }, finish_reason: 'stop' }] })

const servers: Server[] = []
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
  }
})

async function listen(server: Server): Promise<number> {
  servers.push(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

/** The environment without what a test may set. */
const bare = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/_proxy$|^NODE_EXTRA_CA_CERTS$/i.test(name)),
)

/** The result or the error of a call in a process with these variables. A process reads the certificates once. */
async function callWith(env: Record<string, string>, baseUrl: string): Promise<any> {
  const code = `
    const { complete } = require(process.argv[1])
    complete({ baseUrl: process.argv[2], model: 'm', messages: [{ role: 'user', content: 'hi' }], retry: { baseDelayMs: 1 } })
      .catch(({ code, message, attempts }) => ({ code, message, attempts }))
      .then((ended) => console.log(JSON.stringify(ended)))`
  const child = spawn(process.execPath, ['-e', code, require.resolve('../entries/model.js'), baseUrl], {
    env: { ...bare, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let text = ''
  child.stdout.on('data', (chunk) => (text += chunk))
  await once(child, 'close')
  return JSON.parse(text)
}

it('trusts a certificate of NODE_EXTRA_CA_CERTS, and no stranger', async () => {
  const options = { key: readFileSync(key), cert: readFileSync(certificate) }
  const port = await listen(createHttpsServer(options, (_, response) => response.end(answer)))
  const baseUrl = `https://127.0.0.1:${port}/v1`
  expect(await callWith({ NODE_EXTRA_CA_CERTS: certificate }, baseUrl)).toMatchObject({
    text: 'safe',
    attempts: 1,
  })
  const refused = await callWith({}, baseUrl)
  expect(refused).toMatchObject({ code: 'MODEL_UNREACHABLE', attempts: 1 })
  expect(refused.message).toContain('certificate')
})

it('goes through the proxy of the environment, but never to loopback', async () => {
  const asked: string[] = []
  const proxy = createHttpServer((request, response) => {
    asked.push(request.url!)
    response.end(answer)
  })
  const target = createHttpServer((request, response) => response.end(answer))
  const env = { HTTP_PROXY: `http://127.0.0.1:${await listen(proxy)}` }
  expect(await callWith(env, 'http://models.invalid/v1')).toMatchObject({ text: 'safe' })
  expect(asked).toEqual(['http://models.invalid/v1/chat/completions'])
  const loopback = `http://127.0.0.1:${await listen(target)}/v1`
  expect(await callWith(env, loopback)).toMatchObject({ text: 'safe' })
  expect(asked).toHaveLength(1)
  const wrong = await callWith({ HTTP_PROXY: 'http://user:passw0rd@:x' }, loopback)
  expect(wrong.message).toContain('HTTP_PROXY')
  expect(wrong.message).not.toContain('passw0rd')
})

it('reads the proxies at each call, from an environment that the program has replaced, too', async () => {
  const own = process.env
  const asked: number[] = []
  const listening = [1, 2].map((number) =>
    listen(createHttpServer((_, response) => (asked.push(number), response.end(answer)))),
  )
  const call = {
    baseUrl: 'http://models.invalid/v1',
    model: 'm',
    messages: [{ role: 'user', content: 'hi' }],
  }
  try {
    for (const port of await Promise.all(listening)) {
      process.env = { ...bare, HTTP_PROXY: `http://127.0.0.1:${port}` }
      expect(await complete(call)).toMatchObject({ text: 'safe' })
    }
  } finally {
    process.env = own
  }
  expect(asked).toEqual([1, 2])
})
