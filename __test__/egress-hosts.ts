// Servers that a sandbox lists and does not, and programs that try to reach them.
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { createServer as createSocket, type AddressInfo, type Server as Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { run } from '../index.js'

export const folder = realpathSync(mkdtempSync(join(tmpdir(), 'sheepdog-egress-')))
export const inside = join(folder, 'inside')
export const socket = join(folder, 'outside.sock')
/** Keys that arrived. */
export const seen: unknown[] = []
export let listed: Server
export let other: Server
export let outside: Socket

export const portOf = (server: Socket) => (server.address() as AddressInfo).port
export const listening = (server: Socket, ...where: [number, string] | [string]) =>
  new Promise<void>((resolve) => server.listen(...(where as [number, string]), resolve))

beforeAll(async () => {
  mkdirSync(inside)
  const answer: Parameters<typeof createServer>[1] = ({ url, headers }, response) => {
    if (headers['x-api-key']) seen.push(headers['x-api-key'])
    response.end(JSON.stringify({ url, headers }))
  }
  listed = createServer(answer)
  other = createServer(answer)
  outside = createSocket((client) => client.on('error', () => {}).end('hello'))
  await listening(listed, 0, '127.0.0.1')
  await listening(other, 0, '127.0.0.1')
  await listening(outside, socket)
})
afterAll(() => {
  for (const server of [listed, other, outside]) server.close()
  rmSync(folder, { recursive: true })
})

/** Prints the status and the body of a request that goes by the proxy of its environment. */
export const byProxy = `
const proxy = new URL(process.env.HTTP_PROXY)
const authorization = 'Basic ' + Buffer.from(proxy.username + ':' + proxy.password).toString('base64')
require('http').get(
  { host: proxy.hostname, port: proxy.port, path: process.argv[1], headers: { host: new URL(process.argv[1]).host, 'proxy-authorization': authorization } },
  (answer) => { process.stdout.write(answer.statusCode + ' '); answer.pipe(process.stdout) },
)`
/** An agent over ACP that has asked a host, which does not answer, before it falls silent. */
export const askingAgent = (url: string) => [
  'sh',
  '-c',
  'node -e "$1" "$2" > /dev/null 2>&1 & shift 2; exec node "$@"',
  'sh',
  byProxy,
  url,
  join(import.meta.dirname, '../fixtures/acp/agent.mjs'),
  '--version',
  '1',
]
/** Prints what became of a connection. */
export const connect = `
const target = /^\\d+$/.test(process.argv[1]) ? [Number(process.argv[1]), process.argv[2] ?? '127.0.0.1'] : [process.argv[1]]
require('net').connect(...target, () => { console.log('connected'); process.exit() }).on('error', (error) => console.log(error.code))`

export const hosts = () => [`localhost:${portOf(listed)}`]
export const node = (script: string, args: (string | number)[], sandbox: object) =>
  run(process.execPath, ['-e', script, ...args.map(String)], { cwd: folder, sandbox })
