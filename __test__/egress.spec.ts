import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { createServer as createSocket, type AddressInfo, type Server as Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { run } from '../index.js'
import { sheepdog } from './cli-command'

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'sheepdog-egress-')))
const inside = join(folder, 'inside')
const socket = join(folder, 'outside.sock')
let listed: Server
let other: Server
let outside: Socket

const portOf = (server: Socket) => (server.address() as AddressInfo).port
const listening = (server: Socket, ...where: [number, string] | [string]) =>
  new Promise<void>((resolve) => server.listen(...(where as [number, string]), resolve))

beforeAll(async () => {
  mkdirSync(inside)
  const answer: Parameters<typeof createServer>[1] = ({ url, headers }, response) =>
    response.end(JSON.stringify({ url, headers }))
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
const byProxy = `
const proxy = new URL(process.env.HTTP_PROXY)
const authorization = 'Basic ' + Buffer.from(proxy.username + ':' + proxy.password).toString('base64')
require('http').get(
  { host: proxy.hostname, port: proxy.port, path: process.argv[1], headers: { host: new URL(process.argv[1]).host, 'proxy-authorization': authorization } },
  (answer) => { process.stdout.write(answer.statusCode + ' '); answer.pipe(process.stdout) },
)`
/** Prints what became of a connection. */
const connect = `
const target = /^\\d+$/.test(process.argv[1]) ? [Number(process.argv[1]), process.argv[2] ?? '127.0.0.1'] : [process.argv[1]]
require('net').connect(...target, () => { console.log('connected'); process.exit() }).on('error', (error) => console.log(error.code))`

const hosts = () => [`localhost:${portOf(listed)}`]
const node = (script: string, args: (string | number)[], sandbox: object) =>
  run(process.execPath, ['-e', script, ...args.map(String)], { cwd: folder, sandbox })

describe('network: { hosts }', () => {
  it('reaches a listed host by the proxy, which keeps its credential to itself', async () => {
    const url = `http://localhost:${portOf(listed)}/path?q=1`
    const { stdout, sandbox } = await node(byProxy, [url], { network: { hosts: hosts() } })
    expect(stdout).toMatch(/^200 /)
    const { url: path, headers } = JSON.parse(stdout.slice(4))
    expect(path).toBe('/path?q=1')
    expect(headers).not.toHaveProperty('proxy-authorization')
    expect(sandbox!.refused).toEqual([])
    expect(sandbox!.holds).toContain('hosts')
  })

  it('refuses another host with one line, and reports it', async () => {
    const { stdout, sandbox } = await node(byProxy, ['http://other.example/'], {
      network: { hosts: hosts() },
    })
    expect(stdout).toBe('403 sheepdog: other.example:80 is not in `sandbox.network.hosts`\n')
    expect(sandbox!.refused).toEqual([{ kind: 'host', what: 'other.example:80', count: 1 }])
  })

  it('refuses what goes past the proxy, and names the program', async () => {
    const port = portOf(other)
    expect((await node(connect, [port], {})).stdout).toBe('connected\n')
    const { stdout, sandbox } = await node(connect, [port], { network: { hosts: hosts() } })
    expect(stdout).toBe('EACCES\n')
    expect(sandbox!.refused).toEqual([
      { kind: 'host', what: `127.0.0.1:${port}`, program: expect.any(String), count: 1 },
    ])
    const direct = await node(connect, [portOf(listed)], { network: { hosts: hosts() } })
    expect(direct.stdout).toBe('connected\n')
  })

  it.each(['127.0.0.1', '0.0.0.0', '::', undefined])(
    'lets a program use its own server on %s',
    async (host) => {
      const script = `
const server = require('net').createServer((client) => client.end('own')).listen(0, ${JSON.stringify(host)}, () => {
  require('net').connect(server.address().port, '127.0.0.1').on('data', (data) => { console.log(String(data), server.address().address); server.close() }).on('error', (error) => { console.log(error.code); server.close() })
})`
      const { stdout } = await node(script, [], { network: { hosts: [] } })
      expect(stdout).toMatch(/^own (127\.0\.0\.1|::ffff:127\.0\.0\.1)\n$/)
    },
  )

  it('has a credential of its own for each run', async () => {
    const print = () => node('console.log(process.env.HTTPS_PROXY)', [], { network: { hosts: [] } })
    const [one, two] = await Promise.all([print(), print()])
    expect(one.stdout).toMatch(/^http:\/\/sheepdog:[0-9a-f]{48}@127\.0\.0\.1:\d+\n$/)
    expect(one.stdout).not.toBe(two.stdout)
  })

  it.each([
    [{ hosts: ['*.com'] }, 'sandbox.network.hosts[0]'],
    [{ hosts: ['ok.example', 'http://a.example'] }, 'sandbox.network.hosts[1]'],
    [{ hosts: 'a.example' }, 'sandbox.network.hosts'],
    [{ hosts: [], ports: [443] }, 'sandbox.network.ports'],
    [{ hosts: [], secrets: {} }, 'sandbox.network.secrets'],
  ])('%j is a wrong option', async (network, path) => {
    const error = await node('', [], { network }).catch((error) => error)
    expect(error.code).toBe('INVALID_OPTION')
    expect(error.message).toMatch(new RegExp(`^${path.replaceAll(/[[\]]/g, '\\$&')}: `))
  })
})

describe('sockets', () => {
  it.each([['none'], [{ ports: [1] }], [{ hosts: [] }]])('are closed with network %j', async (network) => {
    const { stdout, sandbox } = await node(connect, [socket], { network, write: [inside] })
    expect(stdout).toBe('EACCES\n')
    expect(sandbox!.refused).toMatchObject([{ kind: 'socket', what: socket, count: 1 }])
    expect(sandbox!.holds).toContain('sockets')
  })

  it('are open with "all", where they are listed, and below write', async () => {
    for (const sandbox of [{}, { network: 'none', sockets: [socket] }, { network: 'none', write: [folder] }])
      expect((await node(connect, [socket], sandbox)).stdout).toBe('connected\n')
  })
})

describe('sheepdog run', () => {
  it('takes --host and --socket, and sums up what was refused', async () => {
    const args = ['run', '--host', hosts()[0]!, '--socket', socket, '--', process.execPath, '-e', connect]
    const refused = await sheepdog([...args, String(portOf(other))])
    expect(refused.stdout).toBe('EACCES\n')
    expect(refused.stderr).toContain(`the sandbox refused connections to 127.0.0.1:${portOf(other)}`)
    for (const target of [String(portOf(listed)), socket]) {
      const allowed = await sheepdog([...args, target])
      expect([allowed.stdout, allowed.stderr]).toEqual(['connected\n', ''])
    }
    const both = await sheepdog(['run', '--host', 'a.example', '--network', 'none', '--', 'true'])
    expect(both.stderr).toContain('cannot be combined with --host')
  })
})
