import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Server } from 'node:http'
import { createServer as createSocket, type AddressInfo, type Server as Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startModelServer } from '../fixtures/model-server.mjs'
import { doctor, Harness, run, type AgentEvent } from '../index.js'
import { sheepdog } from './cli-command'

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'sheepdog-egress-')))
const inside = join(folder, 'inside')
const socket = join(folder, 'outside.sock')
/** Keys that arrived. */
const seen: unknown[] = []
let listed: Server
let other: Server
let outside: Socket

const portOf = (server: Socket) => (server.address() as AddressInfo).port
const listening = (server: Socket, ...where: [number, string] | [string]) =>
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
const byProxy = `
const proxy = new URL(process.env.HTTP_PROXY)
const authorization = 'Basic ' + Buffer.from(proxy.username + ':' + proxy.password).toString('base64')
require('http').get(
  { host: proxy.hostname, port: proxy.port, path: process.argv[1], headers: { host: new URL(process.argv[1]).host, 'proxy-authorization': authorization } },
  (answer) => { process.stdout.write(answer.statusCode + ' '); answer.pipe(process.stdout) },
)`
/** An agent over ACP that has asked a host, which does not answer, before it falls silent. */
const askingAgent = (url: string) => [
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

  it('reaches its own server by each name and address of this machine', async () => {
    const script = `
const server = require('http').createServer((_, response) => response.end('own'))
server.listen(0, async () => {
  const { port } = server.address()
  const hosts = ['127.0.0.1', 'localhost', '0.0.0.0', '[::1]', '[::ffff:127.0.0.1]', require('os').hostname(), 'a.localhost']
  const ask = (host) => new Promise((resolve) =>
    require('child_process').execFile('curl', ['-sS', '-m', '20', \`http://\${host}:\${port}/\`], (error, stdout, stderr) => resolve(\`\${host} \${stdout || stderr}\`)))
  for (const host of hosts) console.log(await ask(host))
  server.close()
})`
    const { stdout } = await node(script, [], { network: { hosts: [] } })
    const answers = stdout.trim().split('\n')
    expect(answers.map((line) => line.split(' ').slice(1).join(' '))).toEqual(answers.map(() => 'own'))
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
    [{ hosts: [], secrets: { 'A B': {} } }, 'sandbox.network.secrets'],
    [{ secrets: { KEY: { value: 1, hosts: ['a.example'] } } }, 'sandbox.network.secrets.KEY.value'],
    [{ secrets: { KEY: { value: 'short', hosts: ['a.example'] } } }, 'sandbox.network.secrets.KEY.value'],
    [{ secrets: { KEY: { value: 'long enough', hosts: [] } } }, 'sandbox.network.secrets.KEY.hosts'],
    [{ secrets: { KEY: { value: 'longenough', hosts: ['*.com'] } } }, 'sandbox.network.secrets.KEY.hosts[0]'],
    [{ hosts: 'provider' }, 'sandbox.network.hosts'],
    [{ hosts: ['provider'] }, 'sandbox.network.hosts'],
  ])('%j is a wrong option', async (network, path) => {
    const error = await node('', [], { network }).catch((error) => error)
    expect(error.code).toBe('INVALID_OPTION')
    expect(error.message).toMatch(new RegExp(`^${path.replaceAll(/[[\]]/g, '\\$&')}: `))
  })
})

describe('network: { secrets }', () => {
  const key = 'sk-test-REAL0123456789REAL0123456789'
  const place = () => `localhost:${portOf(listed)}`
  const secrets = () => ({ MODEL_KEY: { value: key, hosts: [place()] } })

  it('exchanges a key in headers on the way to its host, and hides it in the answer', async () => {
    const script = `
require('http').get('http://${place()}/path', { headers: { 'x-api-key': process.env.MODEL_KEY } }, (answer) => answer.pipe(process.stdout))`
    const before = seen.length
    const { stdout, sandbox } = await node(script, [], { network: { secrets: secrets() } })
    expect(seen.slice(before)).toEqual([key])
    const told = JSON.parse(stdout).headers['x-api-key']
    expect(told).toMatch(/^sk-[0-9a-f]{33}$/)
    expect(told).toHaveLength(key.length)
    expect(sandbox!.refused).toEqual([])
  })

  it('refuses a placeholder on the way to another host, and reports it', async () => {
    const hosts = [`localhost:${portOf(other)}`]
    const script = `${byProxy.replace("'proxy-authorization': authorization", "'proxy-authorization': authorization, 'x-api-key': process.env.MODEL_KEY")}`
    const url = `http://localhost:${portOf(other)}/`
    const { stdout, sandbox } = await node(script, [url], { network: { hosts, secrets: secrets() } })
    expect(stdout).toMatch(/^403 sheepdog: the placeholder of MODEL_KEY must not go to /)
    expect(sandbox!.refused).toEqual([
      { kind: 'host', what: `${hosts[0]}: the placeholder of MODEL_KEY was sent to it`, count: 1 },
    ])
  })

  it('lets a placeholder, and no key, reach a server of this machine that is not looked into', async () => {
    const hosts = [`localhost:${portOf(other)}`]
    const script = `
require('http').get('http://${hosts[0]}/', { headers: { 'x-api-key': process.env.MODEL_KEY } }, (answer) => answer.pipe(process.stdout))`
    const before = seen.length
    const { stdout, sandbox } = await node(script, [], { network: { hosts, secrets: secrets() } })
    expect(seen.slice(before)).toEqual([JSON.parse(stdout).headers['x-api-key']])
    expect(seen.at(-1)).toMatch(/^sk-[0-9a-f]{33}$/)
    expect(sandbox!.refused).toEqual([])
  })

  it('holds a key in no variable, argument, file and memory of its tree', async () => {
    // The key itself must not be in the program that looks for it, so it looks for the halves of it next to each other.
    const look = `
import os, subprocess, sys
first, second = sys.argv[1].encode(), sys.argv[2].encode()
child = subprocess.Popen(['sleep', '60'])
found, looked = [], 0
def scan(name, data):
    at = data.find(first)
    while at >= 0:
        if data[at + len(first):at + len(first) + len(second)] == second: found.append(name); return
        at = data.find(first, at + 1)
for pid in {os.getpid(), child.pid, os.getppid()}:
    for file in ('environ', 'cmdline'):
        try: scan(f'{pid} {file}', open(f'/proc/{pid}/{file}', 'rb').read()); looked += 1
        except OSError: pass
    try:
        memory = open(f'/proc/{pid}/mem', 'rb')
        for line in open(f'/proc/{pid}/maps'):
            begin, end = (int(part, 16) for part in line.split()[0].split('-'))
            try: memory.seek(begin); scan(f'{pid} memory', memory.read(end - begin)); looked += 1
            except (OSError, ValueError, OverflowError): pass
    except OSError: pass
for folder in (os.environ['TMPDIR'], os.path.dirname(os.environ['SSL_CERT_FILE'])):
    for where, _, files in os.walk(folder):
        for file in files: scan(file, open(os.path.join(where, file), 'rb').read()); looked += 1
child.kill()
print(looked > 20, found, os.environ['ALIAS'] == os.environ['MODEL_KEY'], sys.argv[3] == os.environ['MODEL_KEY'])`
    const scratch = mkdtempSync(join(folder, 'scratch-'))
    const args = ['-c', look, key.slice(0, 20), key.slice(20), key]
    const options = { cwd: folder, env: { MODEL_KEY: key, ALIAS: key, TMPDIR: scratch } }
    const record = join(folder, 'key-record')
    const control = await run('python3', args, {
      ...options,
      env: { ...options.env, SSL_CERT_FILE: join(scratch, 'none') },
    })
    expect(control.stdout).toMatch(/^True \['\d+ .*\] True True\n$/)
    const result = await run('python3', args, {
      ...options,
      record,
      sandbox: { write: [scratch], network: { secrets: secrets() } },
    })
    expect(result.stdout).toBe('True [] True True\n')
    expect(JSON.stringify(result)).not.toContain(key)
    for (const name of readdirSync(record, { recursive: true, encoding: 'utf8' })) {
      const path = join(record, name)
      if (statSync(path).isFile()) expect(readFileSync(path, 'utf8')).not.toContain(key)
    }
  })

  it('speaks TLS in the place of the host, and trusts what the host process trusts', async () => {
    const certificate = join(__dirname, '..', 'fixtures', 'certificate')
    const script = `
const { createServer } = require('https')
const { readFileSync, writeFileSync } = require('fs')
const { run } = require(${JSON.stringify(join(__dirname, '..'))})
const server = createServer(
  { key: readFileSync(${JSON.stringify(join(certificate, 'loopback.key.pem'))}), cert: readFileSync(${JSON.stringify(join(certificate, 'loopback.cert.pem'))}) },
  ({ headers, url }, response) => {
    const version = { name: 'pkg', version: '1.0.0', description: headers.authorization, dist: {} }
    response.end(url === '/pkg' ? JSON.stringify({ name: 'pkg', 'dist-tags': { latest: '1.0.0' }, versions: { '1.0.0': version } }) : headers.authorization)
  },
).listen(0, '127.0.0.1', async () => {
  const place = 'localhost:' + server.address().port
  const network = { secrets: { MODEL_KEY: { value: ${JSON.stringify(key)}, hosts: [place] } } }
  // A user's own file, in which the authority of this run is not.
  writeFileSync('.npmrc', 'cafile=' + ${JSON.stringify(join(certificate, 'loopback.cert.pem'))} + '\\n//' + place + '/:_authToken=\${MODEL_KEY}\\n')
  const commands = {
    npm: ['npm', 'view', 'pkg', 'description', '--fetch-retries=0', '--registry=https://' + place],
    node: [process.execPath, '-e', 'require("https").get("https://' + place + '", { headers: { authorization: "Bearer " + process.env.MODEL_KEY } }, (a) => a.pipe(process.stdout))'],
    curl: ['sh', '-c', 'curl -s -H "Authorization: Bearer $MODEL_KEY" https://' + place],
    python: ['python3', '-c', 'import os, urllib.request as r; print(r.urlopen(r.Request("https://' + place + '", headers={"Authorization": "Bearer " + os.environ["MODEL_KEY"]})).read().decode(), end="")'],
  }
  for (const [name, [command, ...args]] of Object.entries(commands)) {
    const { stdout, stderr } = await run(command, args, { env: { npm_config_cache: 'cache' }, sandbox: { write: ['.'], network } })
    console.log(name, stdout.trimEnd().startsWith('Bearer sk-') && stdout.trimEnd().length === 7 + ${key.length} && !stdout.includes('REAL'), stderr.trim())
  }
  server.close()
})`
    const env = { NODE_EXTRA_CA_CERTS: join(certificate, 'loopback.cert.pem') }
    const { stdout, stderr } = await run(process.execPath, ['-e', script], {
      cwd: mkdtempSync(join(folder, 'tls-')),
      env,
    })
    expect(stdout + stderr).toBe('npm true \nnode true \ncurl true \npython true \n')
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

describe('agents', () => {
  const lines = (...events: object[]) => events.map((event) => `echo '${JSON.stringify(event)}'`).join('\n')
  const message = { id: 'm', type: 'agent_message', text: 'Hello.' }
  const usage = { input_tokens: 1, cached_input_tokens: 0, output_tokens: 1 }
  /** Codex as a script that connects to these targets first. */
  const codex = (...targets: (string | number)[]) => {
    const tries = targets.map((target) => `'${process.execPath}' -e "$TRY" '${target}' >&2`).join('\n')
    const answer = lines(
      { type: 'thread.started', thread_id: 't-1' },
      { type: 'item.completed', item: message },
      { type: 'turn.completed', usage },
    )
    return ['sh', '-c', `${tries}\n${answer}`, 'codex']
  }
  const options = (sandbox: object) => ({
    cwd: inside,
    env: { HOME: folder, CODEX_HOME: undefined, TRY: connect },
    permission: 'auto' as const,
    sandbox: { write: ['.'], ...sandbox },
  })

  it('tells of each target that a turn was refused, once, and counts them', async () => {
    const refused = portOf(other)
    const turn = new Harness({
      provider: 'codex',
      binary: codex(refused, portOf(listed), socket, refused),
      ...options({ network: { hosts: hosts() } }),
    }).start('hi', { record: join(folder, 'record') })
    const events: AgentEvent[] = []
    for await (const event of turn) if (event.type === 'refused') events.push(event)
    const host = `127.0.0.1:${refused}`
    expect(events).toEqual([
      { type: 'refused', kind: 'host', what: host },
      { type: 'refused', kind: 'socket', what: socket },
    ])
    const result = await turn.result
    expect(result.warnings).toContain(`the sandbox refused connections to ${host}, ${socket}`)
    expect(result.sandbox!.refused).toMatchObject([
      { kind: 'host', what: host, count: 2 },
      { kind: 'socket', what: socket, count: 1 },
    ])
    const [recorded] = readdirSync(join(folder, 'record'), { recursive: true, encoding: 'utf8' }).filter(
      (name) => name.endsWith('events.jsonl'),
    )
    expect(readFileSync(join(folder, 'record', recorded!), 'utf8')).toContain(
      `"event":{"type":"refused","kind":"socket","what":${JSON.stringify(socket)}}`,
    )
  })

  it('has an empty list for a sandbox that refused nothing, and none without one', async () => {
    const run = (sandbox: object | undefined) =>
      new Harness({ provider: 'codex', binary: codex(portOf(listed)), ...options({}), ...sandbox }).run('hi')
    expect((await run({})).sandbox).toEqual({ refused: [] })
    expect(await run({ sandbox: undefined })).not.toHaveProperty('sandbox')
  })

  it('stands for the hosts of an agent by the word provider', async () => {
    const environment = `${process.execPath} -e "$TRY" ${portOf(listed)} >&2`
    const harness = new Harness({
      provider: 'claude-code',
      binary: ['sh', '-c', environment, 'claude'],
      ...options({ network: { hosts: 'provider' } }),
      retry: { attempts: 1 },
      env: { ...options({}).env, ANTHROPIC_BASE_URL: `http://127.0.0.1:${portOf(listed)}` },
    })
    const error = await harness.run('hi').catch((error) => error)
    expect(error.stderr).toContain('connected')
    expect(error.result.sandbox.refused).toEqual([])
    const [claude] = (await doctor({ inheritEnv: false })).filter(
      ({ provider }) => provider === 'claude-code',
    )
    expect(claude!.hosts).toEqual(['api.anthropic.com', 'platform.claude.com'])
  })

  it('refuses the word provider for an agent whose hosts nobody knows', async () => {
    const script = `'${process.execPath}' -e "$TRY" ${portOf(listed)}`
    const agent = { name: 'own-agent', command: 'sh', args: ['-c', script] }
    const run = (hosts: 'provider' | string[], variables: object = {}) =>
      new Harness({
        provider: agent,
        ...options({ network: { hosts } }),
        retry: { attempts: 1 },
        env: { ...options({}).env, OPENAI_BASE_URL: undefined, ANTHROPIC_BASE_URL: undefined, ...variables },
      })
        .run('hi')
        .catch((error) => error)
    for (const hosts of ['provider' as const, ['provider', 'a.example']]) {
      const error = await run(hosts)
      expect(error.code).toBe('INVALID_OPTION')
      expect(error.message).toMatch(
        /^sandbox\.network\.hosts: nothing is known .* list them .* OPENAI_BASE_URL/,
      )
    }
    // The agent starts, and is none.
    for (const error of [
      await run(['a.example']),
      await run('provider', { OPENAI_BASE_URL: `http://127.0.0.1:${portOf(listed)}/v1` }),
    ])
      expect(error.code).not.toBe('INVALID_OPTION')
  })

  describe('with a meter', () => {
    let server: Awaited<ReturnType<typeof startModelServer>>
    beforeAll(async () => {
      server = await startModelServer()
    })
    afterAll(() => server.close())

    /** An agent as a script of Node, which calls the model so often, and reports no usage. */
    const kimi = (
      api: string,
      calls: number,
      sandbox: object,
      limits: object = {},
      script = 'every;;text=done',
      /** It breaks each request off when this file, in the working directory, says that the server has it. */
      heard?: string,
    ) => {
      const bodies: Record<string, object> = {
        'v1/chat/completions': {
          model: 'm',
          stream: true,
          stream_options: { include_usage: true },
          messages: [],
        },
        'v1/responses': { model: 'm', stream: true, input: [] },
        'v1/messages': { model: 'm', stream: true, max_tokens: 10, messages: [] },
        'v1beta/models/m:streamGenerateContent?alt=sse': { contents: [] },
      }
      const program = `
const isHeard = (call) => Number(require('fs').readFileSync('${heard}', 'utf8')) > call
const main = async () => {
  for (let call = 0; call < ${calls}; call++) {
    const broken = new AbortController()
    const look = ${heard !== undefined} && setInterval(() => isHeard(call) && broken.abort(), 20)
    const answer = await fetch(process.env.MODEL + '/${api}', { method: 'POST', headers: { 'content-type': 'application/json', authorization: 'Bearer ' + process.env.MODEL_KEY }, body: ${JSON.stringify(JSON.stringify(bodies[api]))}, signal: broken.signal }).catch(() => {})
    clearInterval(look)
    console.error(answer?.status, (await answer?.text().catch((error) => error.message))?.length)
  }
  console.log(JSON.stringify({ role: 'assistant', content: 'Hello.' }))
  console.log(JSON.stringify({ role: 'meta', type: 'session.resume_hint', session_id: 'session_1' }))
}
main()`
      return new Harness({
        provider: 'kimi',
        binary: [process.execPath, '-e', program, '--'],
        cwd: inside,
        env: { HOME: folder, MODEL: server.urlFor(script) },
        permission: 'auto',
        sandbox: { write: ['.'], network: { hosts: [`127.0.0.1:${server.port}`], ...sandbox } },
        retry: { attempts: 1 },
        ...limits,
      })
    }
    const secrets = () => ({
      MODEL_KEY: { value: 'sk-real-0123456789', hosts: [`127.0.0.1:${server.port}`] },
    })

    it.each([
      'v1/chat/completions',
      'v1/responses',
      'v1/messages',
      'v1beta/models/m:streamGenerateContent?alt=sse',
    ])('meters what the model server counts: %s', async (api) => {
      const usage = { input: 1234, cached: 200, output: 56 }
      const script = JSON.stringify([{ every: true }, { text: 'done', usage }])
      const { usage: told } = await kimi(api, 3, { secrets: secrets() }, {}, script).run('hi')
      expect(told).toMatchObject({ inputTokens: 3702, outputTokens: 168, cachedInputTokens: 600 })
      expect(told!.metered).toMatchObject({
        inputTokens: 3702,
        outputTokens: 168,
        cachedInputTokens: 600,
        requests: 3,
        estimated: 0,
        unread: 0,
      })
      const [last] = server.requests.slice(-1)
      expect(last!.headers.authorization).toBe('Bearer sk-real-0123456789')
    })

    it('holds an agent that reports no usage to its budget, in the middle of a stream', async () => {
      const script = JSON.stringify([{ every: true }, { drip: 100_000, everyMs: 5 }])
      const harness = kimi('v1/chat/completions', 3, {}, { maxTokens: 100 }, script)
      const before = server.requests.length
      const error = await harness.run('hi').catch((error) => error)
      expect(error.code).toBe('AGENT_BUDGET')
      expect(error.usedTokens).toBeGreaterThan(100)
      expect(error.usedTokens).toBeLessThan(2000)
      const [request, ...others] = server.requests.slice(before)
      expect(others).toEqual([])
      expect(await request!.closed).toBe('hung up')
      expect(error.result.usage.metered).toMatchObject({ requests: 1, estimated: 1 })
    })

    it('counts requests that are broken off before their answers', async () => {
      const script = JSON.stringify([{ every: true }, { silent: true }])
      const api = 'v1/chat/completions'
      const whileTelling = async <T>(work: () => Promise<T>): Promise<T> => {
        const before = server.requests.length
        const tell = () => writeFileSync(join(inside, 'heard'), `${server.requests.length - before}`)
        tell()
        const timer = setInterval(tell, 20)
        return work().finally(() => clearInterval(timer))
      }
      const few = await whileTelling(() => kimi(api, 3, {}, { maxTokens: 10_000 }, script, 'heard').run('hi'))
      expect(few.usage!.metered).toMatchObject({ requests: 3, estimated: 3, outputTokens: 0 })
      expect(few.usage!.inputTokens).toBeGreaterThan(30)
      expect(few.warnings).toContain('3 answers of models did not say their tokens: they were estimated')
      const before = server.requests.length
      const many = await whileTelling(() =>
        kimi(api, 20, {}, { maxTokens: 100 }, script, 'heard').run('hi'),
      ).catch((error) => error)
      expect(many.code).toBe('AGENT_BUDGET')
      expect(server.requests.length - before).toBeLessThan(10)
    })

    it.each([
      ['application/octet-stream', '{"choices":[],"usage":{"prompt_tokens":300,"completion_tokens":2}}', 302],
      ['application/x-protobuf', '\n\u0005Hello', 0],
    ])('counts an answer of type %s', async (type, body, tokens) => {
      const script = JSON.stringify([{ every: true }, { raw: body, contentType: type }])
      const answered = await kimi('v1/chat/completions', 1, {}, { maxTokens: 1000 }, script).run('hi')
      const { inputTokens, outputTokens, unread } = answered.usage!.metered!
      if (tokens) expect([inputTokens + outputTokens, unread]).toEqual([tokens, 0])
      else {
        expect(inputTokens + outputTokens).toBeGreaterThan(10)
        expect(answered.warnings.join()).toContain('1 answers could not be read')
      }
    })

    it('tells of tokens that a cap of money does not count', async () => {
      const line = (line: object) => `console.log(${JSON.stringify(JSON.stringify(line))})`
      const body = JSON.stringify({ model: 'm', max_tokens: 10, messages: [] })
      const usage = { input_tokens: 100, output_tokens: 10 }
      const program = `
${line({ type: 'system', subtype: 'init', session_id: 's' })}
fetch(process.env.ANTHROPIC_BASE_URL + '/v1/messages', { method: 'POST', headers: { 'content-type': 'application/json' }, body: ${JSON.stringify(body)} })
  .then((answer) => answer.text())
  .then(() => ${line({ type: 'result', subtype: 'success', is_error: false, result: 'Hello.', session_id: 's', total_cost_usd: 0.001, usage })})`
      const script = JSON.stringify([
        { every: true },
        { text: 'done', usage: { input: 1_000_000, output: 5 } },
      ])
      const claude = (options: object) =>
        new Harness({
          provider: 'claude-code',
          binary: [process.execPath, '-e', program, '--'],
          cwd: inside,
          env: { HOME: folder, ANTHROPIC_BASE_URL: server.urlFor(script) },
          permission: 'auto',
          sandbox: { write: ['.'], network: { hosts: 'provider' } },
          retry: { attempts: 1 },
          maxCostUsd: 1,
          ...options,
        }).run('hi')
      const { warnings, usage: told } = await claude({})
      expect(told!.metered).toMatchObject({ inputTokens: 1_000_000, requests: 1 })
      expect(warnings.join()).toContain('maxCostUsd: 999895 metered tokens count as free')
      const prices = { inputPerMillion: 3, outputPerMillion: 15 }
      const error = await claude({ prices }).catch((error) => error)
      expect(error).toMatchObject({ code: 'AGENT_BUDGET', cap: 'maxCostUsd' })
    })

    it('refuses a budget for an agent without usage where nothing is metered', async () => {
      const harness = kimi('v1/chat/completions', 1, {}, { maxTokens: 100, sandbox: 'workspace' })
      const error = await harness.run('hi').catch((error) => error)
      expect(error.code).toBe('INVALID_OPTION')
      expect(error.message).toContain('hosts')
    })
  })

  it('tells of what a session was refused', async () => {
    const agent = join(__dirname, '..', 'fixtures', 'acp', 'agent.mjs')
    const port = portOf(other)
    const script = `'${process.execPath}' -e "$TRY" ${port} >&2; exec '${process.execPath}' '${agent}'`
    const harness = new Harness({
      provider: 'codex',
      binary: ['sh', '-c', script, 'codex-acp'],
      ...options({ network: { hosts: [] } }),
    })
    const opened = await harness.open({})
    try {
      const result = await opened.prompt('hi')
      const what = `127.0.0.1:${port}`
      expect(result.warnings).toContain(`the sandbox refused connections to ${what}`)
      expect(result.sandbox!.refused).toMatchObject([{ kind: 'host', what, count: 1 }])
    } finally {
      await opened.close()
    }
  })
})

describe('sheepdog run', () => {
  it('takes --secret, whose value is in the environment', async () => {
    const place = `localhost:${portOf(listed)}`
    const script = `
require('http').get('http://${place}/', { headers: { 'x-api-key': process.env.MODEL_KEY } }, (answer) => { answer.resume(); console.log(answer.statusCode, process.env.MODEL_KEY) })`
    const command = ['--', process.execPath, '-e', script]
    const env = { ...process.env, MODEL_KEY: 'sk-real-REAL0123456789' }
    const before = seen.length
    const args = ['run', '--secret', `MODEL_KEY@${place}`, ...command]
    const { stdout, stderr: log } = await sheepdog(args, { ...env, SHEEPDOG_LOG: 'trace' })
    expect(stdout).toMatch(/^200 sk-[0-9a-f]{19}\n$/)
    expect(log).toContain('sheepdog run 1: ended')
    expect(log).not.toContain('REAL0123456789')
    expect(seen.slice(before)).toEqual(['sk-real-REAL0123456789'])
    for (const [text, problem] of [
      ['NO_SUCH_KEY@a.example', 'the variable NO_SUCH_KEY is not set'],
      ['MODEL_KEY', 'expected NAME@HOST'],
    ]) {
      const wrong = await sheepdog(['run', '--secret', text!, '--', 'true'], env)
      expect(wrong.stderr).toContain(problem)
    }
  })

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

it('names the host that was asked last when a session falls silent', async () => {
  const deaf = createServer(() => {})
  await listening(deaf, 0, '127.0.0.1')
  const place = `localhost:${portOf(deaf)}`
  const asked = new Promise((resolve) => deaf.once('request', resolve))
  const session = await new Harness({ provider: 'gemini' }).open({
    binary: askingAgent(`http://${place}/`) as [string, ...string[]],
    cwd: inside,
    idleTimeoutMs: 1500,
    sandbox: {
      write: ['.'],
      // A host with a secret is asked through the proxy.
      network: { hosts: [place], secrets: { KEY: { value: 'a-secret-of-its-own', hosts: [place] } } },
    },
  })
  try {
    await asked
    await expect(session.prompt('stall')).rejects.toMatchObject({
      code: 'AGENT_IDLE',
      message: expect.stringContaining(`${place}, which was asked last, did not answer`),
    })
  } finally {
    await session.close()
    deaf.closeAllConnections()
    deaf.close()
  }
})
