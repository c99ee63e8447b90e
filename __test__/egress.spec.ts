// Egress of programs: hosts, secrets and sockets, and what the command takes of them.
import { mkdtempSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Harness, run, type SandboxOptions } from '../index.js'
import { sheepdog } from './cli-command'
import {
  byProxy,
  connect,
  folder,
  hosts,
  inside,
  listed,
  node,
  other,
  portOf,
  seen,
  socket,
} from './egress-hosts'

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

  const wrong: [object, string][] = [
    [{ hosts: ['*.com'] }, 'sandbox.network.hosts[0]'],
    [{ hosts: ['ok.example', 'http://a.example'] }, 'sandbox.network.hosts[1]'],
    [{ hosts: 'a.example' }, 'sandbox.network.hosts'],
    [{ hosts: [], ports: [443] }, 'sandbox.network.ports'],
    [{ hosts: [], secrets: { 'A B': {} } }, 'sandbox.network.secrets'],
    [{ secrets: { KEY: { value: 1, hosts: ['a.example'] } } }, 'sandbox.network.secrets.KEY.value'],
    [{ secrets: { KEY: { value: 'short', hosts: ['a.example'] } } }, 'sandbox.network.secrets.KEY.value'],
    [{ secrets: { KEY: { value: 'long enough', hosts: [] } } }, 'sandbox.network.secrets.KEY.hosts'],
    [{ secrets: { KEY: { value: 'longenough', hosts: ['*.com'] } } }, 'sandbox.network.secrets.KEY.hosts[0]'],
  ]
  const named: typeof wrong = [
    [{ hosts: 'provider' }, 'sandbox.network.hosts'],
    [{ hosts: ['provider'] }, 'sandbox.network.hosts'],
  ]
  it.each([...wrong, ...named])('%j is a wrong option', async (network, path) => {
    const error = await node('', [], { network } as SandboxOptions).catch((error) => error)
    expect(error).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringMatching(begins(path)) })
  })

  it.each(wrong)('%j is a wrong option of a harness', (network, path) => {
    const error = expect.objectContaining({
      code: 'INVALID_OPTION',
      message: expect.stringMatching(begins(path)),
    })
    expect(() => new Harness({ provider: 'codex', sandbox: { network } as SandboxOptions })).toThrow(error)
  })

  function begins(path: string): RegExp {
    return new RegExp(`^${path.replaceAll(/[[\]]/g, '\\$&')}: `)
  }
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
