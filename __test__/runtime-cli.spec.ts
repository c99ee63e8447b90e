import { execFile, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { connect, type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createServer } from 'node:tls'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const program = join(import.meta.dirname, '../cli/sheepdog.js')
const handler = join(import.meta.dirname, '../fixtures/runtime/puppet.mjs')

function sheepdog(...args: string[]): Promise<{ status: number; stdout: string; stderr: string }> {
  return sheepdogWith({}, ...args)
}

function sheepdogWith(
  env: Record<string, string>,
  ...args: string[]
): Promise<{ status: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const options = { env: { ...process.env, ...env } }
    execFile(process.execPath, [program, ...args], options, (error, stdout, stderr) => {
      resolve({ status: error ? Number(error.code) : 0, stdout, stderr })
    })
  })
}

function serve(...args: string[]) {
  return serveWith({}, ...args)
}

function serveWith(env: Record<string, string>, ...args: string[]) {
  const child = spawn(process.execPath, [program, 'serve', '--port', '0', ...args], {
    stdio: ['ignore', 'pipe', 'ignore'],
    env: { ...process.env, ...env },
  })
  const ready = new Promise<string>((resolve) => {
    let seen = ''
    child.stdout.on('data', (text) => {
      seen += text
      const [, port] = /^RuntimeUse server listening on port (\d+)$/m.exec(seen) ?? []
      if (port) resolve(`ws://127.0.0.1:${port}`)
    })
  })
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve))
  return { ready, ended, stop: () => child.kill('SIGTERM') }
}

describe('sheepdog serve, query and exec', () => {
  let server: ReturnType<typeof serve>
  let url: string

  beforeAll(async () => {
    server = serve(`--handler=${handler}`)
    url = await server.ready
  })

  afterAll(() => server.stop())

  it.runIf(process.platform === 'linux')('exec waits for a slow reader, and stays small', async () => {
    const progress = join(mkdtempSync(join(tmpdir(), 'runtime-cli-')), 'progress')
    // 64 MB; a mark for each MB.
    const command = `for i in $(seq 64); do head -c 1000000 /dev/zero | tr '\\0' x; printf . >> ${progress}; done`
    const child = spawn(process.execPath, [program, 'exec', url, '--', command], {
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    const marks = () => statSync(progress, { throwIfNoEntry: false })?.size ?? 0
    // Nobody reads: the command stands still.
    for (let still = 0, last = -1; still < 10; still = marks() > 0 && marks() === last ? still + 1 : 0) {
      last = marks()
      await sleep(100)
    }
    expect(marks(), 'MB').toBeLessThan(32)
    let bytes = 0
    for await (const chunk of child.stdout) bytes += chunk.length
    expect(bytes).toBe(64_000_000)
    rmSync(dirname(progress), { recursive: true })
  })

  it('asks the agent and prints its answer', async () => {
    expect(await sheepdog('query', url, 'say hello')).toMatchObject({
      status: 0,
      stdout: 'hello\n',
      stderr: 'hello\n',
    })
    expect(await sheepdog('query', url, 'fail why')).toMatchObject({
      status: 1,
      stdout: '',
      stderr: 'sheepdog query: why\n',
    })
  })

  it('runs a command line, or a program with its arguments', async () => {
    expect(await sheepdog('exec', url, '--', 'echo one | tr o x')).toMatchObject({
      status: 0,
      stdout: 'xne\n',
    })
    expect(await sheepdog('exec', url, '--', 'printf', '%s.', "it's", '$HOME')).toMatchObject({
      stdout: "it's.$HOME.",
    })
  })

  it("ends with the command's own exit status", async () => {
    expect(await sheepdog('exec', url, '--', 'echo out; echo err >&2; exit 3')).toEqual({
      status: 3,
      stdout: 'out\n',
      stderr: 'err\n',
    })
    expect(await sheepdog('exec', url, '--', 'nosuchprogram')).toMatchObject({ status: 127 })
    expect(await sheepdog('exec', url, '--', 'kill -9 $$')).toMatchObject({ status: 137 })
    expect(await sheepdog('exec', url, '--', __filename)).toMatchObject({ status: 126 })
    expect(await sheepdog('exec', '--idle', '300ms', url, '--', 'sleep 60')).toMatchObject({ status: 125 })
    expect(await sheepdog('exec', '--env', 'A=b c', url, '--', 'echo "$A"')).toMatchObject({
      stdout: 'b c\n',
    })
    expect(await sheepdog('exec', '--timeout', '300ms', url, '--', 'sleep 60')).toMatchObject({ status: 124 })
  })

  it('stops the command when nobody reads its output any more', async () => {
    const line = `"$0" "$1" exec "$2" -- yes | head -1; echo "\${PIPESTATUS[0]}"`
    const { stdout } = await new Promise<{ stdout: string }>((resolve) =>
      execFile('/bin/bash', ['-c', line, process.execPath, program, url], (_, stdout) => resolve({ stdout })),
    )
    expect(stdout).toBe('y\n141\n')
  })

  it('keeps the token from what it runs, and tells a wrong one from none', async () => {
    const other = serveWith({ SHEEPDOG_RUNTIME_TOKEN: 'the-token' }, '--handler', handler)
    const address = await other.ready
    const token = { SHEEPDOG_RUNTIME_TOKEN: 'the-token' }
    expect(await sheepdogWith(token, 'exec', address, '--', 'env')).toMatchObject({
      status: 0,
      stdout: expect.not.stringContaining('the-token'),
    })
    expect((await sheepdog('exec', address, '--', 'true')).stderr).toMatch(/requires a token: .*--token/)
    expect((await sheepdog('exec', '--token', 'x', address, '--', 'true')).stderr).toMatch(
      /refused this token/,
    )
    other.stop()
    expect(await other.ended).toBe(0)
  })

  it('says in one line what is wrong', async () => {
    for (const [args, words] of [
      [['serve', '--agent', 'openai'], /unknown agent "openai"; there are claude-code, codex/],
      [['serve', '--port', 'abc'], /--port: expected a number/],
      [['serve', '--host', '0.0.0.0'], /host: .*--token/],
      [['serve', '--handler', '/nowhere.mjs'], /nowhere/],
      [['query', 'ws://127.0.0.1:1', 'x'], /no connection to the runtime/],
      [['exec', url], /expected a URL and a command/],
    ] as [string[], RegExp][]) {
      const { status, stderr } = await sheepdog(...args)
      // A runtime that can't be reached is no fault of the command line.
      expect(status, args.join(' ')).toBe(args[0] === 'query' ? 1 : 2)
      expect(stderr).toMatch(words)
    }
  })

  it('speaks TLS to a wss:// URL, and trusts no stranger', async () => {
    const file = (name: string) => join(import.meta.dirname, '../fixtures/certificate', name)
    const certificate = file('loopback.cert.pem')
    const identity = { cert: readFileSync(certificate), key: readFileSync(file('loopback.key.pem')) }
    const terminator = createServer(identity, (secure) => {
      const plain = connect(Number(new URL(url).port), '127.0.0.1')
      for (const socket of [secure, plain]) socket.on('error', () => {})
      secure.pipe(plain).pipe(secure)
    })
    terminator.on('tlsClientError', () => {})
    await new Promise<void>((resolve) => terminator.listen(0, '127.0.0.1', resolve))
    const address = `wss://127.0.0.1:${(terminator.address() as AddressInfo).port}`
    try {
      const trusting = { NODE_EXTRA_CA_CERTS: certificate }
      expect(await sheepdogWith(trusting, 'query', address, 'say hello')).toMatchObject({
        status: 0,
        stdout: 'hello\n',
      })
      const refused = await sheepdog('query', address, 'say hello')
      expect(refused).toMatchObject({ status: 1, stdout: '' })
      expect(refused.stderr).toMatch(/no connection to the runtime: .*certificate/)
      const plain = await sheepdog('query', url.replace('ws:', 'wss:'), 'say hello')
      expect(plain.stderr).toMatch(/no connection to the runtime: .*wss:/)
    } finally {
      terminator.close()
    }
  })

  it('serves on whatever a handler leaves behind, and ends on SIGTERM all the same', async () => {
    const careless = join(import.meta.dirname, '../fixtures/runtime/careless.mjs')
    const other = serve('--handler', careless)
    const address = await other.ready
    for (const word of ['timer', 'rejection', 'exception', 'timer']) {
      expect(await sheepdog('query', address, word)).toMatchObject({ status: 0, stdout: `${word}\n` })
    }
    other.stop()
    expect(await other.ended).toBe(0)
  })

  it('ends on SIGTERM, also with a client connected', async () => {
    const other = serve('--handler', handler, '--token', 'secret')
    const address = await other.ready
    expect(await sheepdog('query', address, 'say x')).toMatchObject({ status: 1 })
    expect(await sheepdog('query', `${address}/?token=secret`, 'say x')).toMatchObject({ status: 0 })
    const waiting = spawn(process.execPath, [program, 'query', '--token', 'secret', address, 'wait'])
    const left = new Promise((resolve) => waiting.once('exit', resolve))
    await new Promise<void>((resolve) => {
      waiting.stderr.on('data', (text) => String(text).includes('waiting') && resolve())
    })
    other.stop()
    expect(await other.ended).toBe(0)
    expect(await left).toBe(1)
  })
})
