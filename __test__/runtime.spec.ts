import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { RuntimeClient, serveRuntime, type AgentHandler, type ArtifactUpload } from '../entries/runtime.js'
import { scriptedAgent } from '../entries/testing.js'
import puppet from '../fixtures/runtime/puppet.mjs'
import { findPython, runClient } from './interop/python.mjs'

const query = { systemPrompt: 's', model: 'm' }
const cleanup: (() => unknown)[] = []

afterEach(async () => {
  for (const step of cleanup.splice(0).reverse()) await step()
})

async function serve(options: Parameters<typeof serveRuntime>[0] = {}) {
  const server = await serveRuntime({ handler: puppet as AgentHandler, port: 0, ...options })
  cleanup.push(() => server.close())
  return server
}

async function session(options: Parameters<typeof serveRuntime>[0] = {}) {
  const server = await serve(options)
  const client = await RuntimeClient.connect(server.url)
  cleanup.push(() => client.close())
  return client
}

function temporary(): string {
  const directory = mkdtempSync(join(tmpdir(), 'sheepdog-'))
  cleanup.push(() => rmSync(directory, { recursive: true, force: true }))
  return directory
}

async function sink() {
  const received = new Map<string, string>()
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part) => parts.push(part))
    request.on('end', () => {
      received.set(request.url!, Buffer.concat(parts).toString())
      // As a careless server does: it repeats what it was asked.
      response.writeHead(request.url!.startsWith('/deny/') ? 403 : 200)
      response.end(`${request.url} is not yours`)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  cleanup.push(() => server.close())
  return { received, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

describe('serveRuntime and RuntimeClient', () => {
  it('asks the handler and hands over what it says', async () => {
    const client = await session()
    const said: string[] = []
    const result = await client.query('say hello', {
      ...query,
      onAssistantMessage: (blocks) => said.push(...blocks),
    })
    expect(result).toEqual({ data: { type: 'text', text: 'hello' }, metadata: { model: 'm' } })
    expect(said).toEqual(['hello'])
    const structured = await client.query('json {"a":1}', query)
    expect(structured.data).toEqual({ type: 'structured_output', structuredOutput: { a: 1 } })
    const { data } = await client.query('format', { ...query, outputSchema: { type: 'object' } })
    expect(data).toMatchObject({ text: JSON.stringify({ type: 'json_schema', schema: { type: 'object' } }) })
    expect((await client.query('env A', { ...query, agentEnv: { A: 'b' } })).data).toMatchObject({
      text: 'b',
    })
  })

  it('runs commands and streams their output', async () => {
    const client = await session()
    let text = ''
    const { results } = await client.executeCommands(
      ['echo one', { command: 'echo $A; exit 3', env: { A: 'two' } }, 'echo never'],
      {
        onCommandOutput: (output) => (text += output.text),
      },
    )
    expect(results).toEqual([
      { command: 'echo one', exitCode: 0, stdout: 'one\n' },
      { command: 'echo $A; exit 3', exitCode: 3, stdout: 'two\n' },
    ])
    expect(text).toBe('one\ntwo\n')
  })

  it('rejects with RUNTIME_FAILED and the metadata, without stack and paths', async () => {
    const client = await session()
    const error = await client.query(`fail not in ${process.cwd()}/x`, query).catch((error) => error)
    expect(error).toMatchObject({ code: 'RUNTIME_FAILED', message: 'not in ./x' })
    expect(error.metadata).toEqual({ error_name: 'Error', kind: 'wanted', error_details: { detail: 7 } })
    await expect(client.query('error early', query)).rejects.toMatchObject({
      code: 'RUNTIME_FAILED',
      message: 'early',
    })
    await expect(client.query('nonsense', query)).rejects.toMatchObject({ code: 'RUNTIME_FAILED' })
    await expect(client.query('say on', query)).resolves.toMatchObject({ data: { text: 'on' } })
  })

  it('rejects with RUNTIME_BUSY, RUNTIME_TIMED_OUT, RUNTIME_IDLE and RUNTIME_ABORTED, and stays usable', async () => {
    const client = await session()
    const first = client.query('wait', { ...query, timeoutMs: 300 })
    await expect(client.query('say x', query)).rejects.toMatchObject({ code: 'RUNTIME_BUSY' })
    await expect(first).rejects.toMatchObject({ code: 'RUNTIME_TIMED_OUT' })
    await expect(client.query('wait', { ...query, idleTimeoutMs: 100 })).rejects.toMatchObject({
      code: 'RUNTIME_IDLE',
    })
    const controller = new AbortController()
    const aborted = client.query('wait', {
      ...query,
      signal: controller.signal,
      onAssistantMessage: () => controller.abort(new Error('enough')),
    })
    await expect(aborted).rejects.toMatchObject({ code: 'RUNTIME_ABORTED', cause: { message: 'enough' } })
    await expect(client.query('say x', { ...query, signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: 'RUNTIME_ABORTED',
    })
    await expect(client.query('say on', query)).resolves.toMatchObject({ data: { text: 'on' } })
  })

  it("gives the caller the callback's own error, and stays usable", async () => {
    const client = await session()
    const query1 = client.query('wait', {
      ...query,
      onAssistantMessage: () => {
        throw new TypeError('mine')
      },
    })
    await expect(query1).rejects.toThrow(new TypeError('mine'))
    await expect(client.query('say on', query)).resolves.toMatchObject({ data: { text: 'on' } })
  })

  it('brings files home, also those that come after the request, and names what is missing', async () => {
    const client = await session()
    const { received, url } = await sink()
    const directory = temporary()
    await client.executeCommands([{ command: 'echo early > early.txt', cwd: directory }], {
      artifactsDirs: [directory],
      onArtifactUploadRequest: ({ filename }) => {
        if (filename === 'unwanted') throw new Error('not this one')
        if (filename === 'nowhere') return undefined as never
        return { presignedUrl: `${url}/${filename}`, contentType: 'text/plain' }
      },
    })
    writeFileSync(join(directory, 'late.txt'), 'late')
    writeFileSync(join(directory, 'unwanted'), 'x')
    writeFileSync(join(directory, 'nowhere'), 'x')
    const end = await client.endSession()
    const failed = "the client's callback failed"
    expect({ ...end, undelivered: undefined }).toEqual({ confirmed: true, uploaded: 2 })
    expect([...end.undelivered].sort((a, b) => (a.path < b.path ? -1 : 1))).toEqual([
      {
        path: join(directory, 'nowhere'),
        reason: `${failed}: expected { presignedUrl, contentType }, got undefined`,
      },
      { path: join(directory, 'unwanted'), reason: `${failed}: not this one` },
    ])
    expect(Object.fromEntries(received)).toEqual({ '/early.txt': 'early\n', '/late.txt': 'late' })
    expect(await client.endSession()).toEqual(end)
    await expect(client.query('say x', query)).rejects.toMatchObject({ code: 'RUNTIME_CLOSED' })
  })

  it('tells how each upload went', async () => {
    const client = await session()
    const { received, url } = await sink()
    const directory = temporary()
    const uploads: ArtifactUpload[] = []
    await client.executeCommands([{ command: 'printf abc > good; printf x > bad', cwd: directory }], {
      artifactsDirs: [directory],
      onArtifactUploadRequest: ({ filename }) => ({
        presignedUrl: filename === 'bad' ? `${url}/deny/secret-word` : `${url}/${filename}`,
        contentType: 'text/plain',
      }),
      onArtifactUploaded: (upload) => uploads.push(upload),
    })
    await client.endSession()
    uploads.sort((left, right) => (left.path < right.path ? -1 : 1))
    expect(uploads).toEqual([
      {
        path: join(directory, 'bad'),
        status: 'failed',
        attempts: 1,
        reason: 'the upload failed after 1 attempt: status 403',
      },
      {
        path: join(directory, 'good'),
        status: 'uploaded',
        bytes: 3,
        sha256: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
        attempts: 1,
      },
    ])
    expect(received.get('/good')).toBe('abc')
  })

  it('carries half surrogates both ways, and refuses aloud what it can not carry', async () => {
    const client = await session()
    const half = 'x\ud83d'
    await expect(
      client.query(`say ${half}`, { ...query, secrets: [half], agentEnv: { A: half } }),
    ).resolves.toMatchObject({
      data: { text: '[REDACTED]' },
    })
    await expect(
      client.executeCommands([{ command: `printf %s '${half}'`, env: { A: half } }]),
    ).resolves.toMatchObject({
      results: [{ exitCode: 0 }],
    })
    const { data } = await client.query('json {"a":"\\ud83d"}', query)
    expect(data).toMatchObject({ structuredOutput: { a: '\ufffd' } })
    const deep = `${'['.repeat(200)}${']'.repeat(200)}`
    await expect(client.query(`json {"a":${deep}}`, query)).rejects.toMatchObject({
      code: 'RUNTIME_FAILED',
      message: expect.stringContaining('nested deeper than 128 levels'),
    })
    await expect(client.query('say on', query)).resolves.toMatchObject({ data: { text: 'on' } })
  })

  it('checks what goes over, by its path', async () => {
    const client = await session()
    await expect(client.query('x', { ...query, agentEnv: { A: 5 } as never })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: 'agentEnv.A: expected a string, got 5',
    })
    await expect(client.executeCommands([{ command: 'x', env: { 'A=B': '' } }])).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringMatching(/^commands\[0\]\.env: /),
    })
  })

  it('has codes for a port in use and for an end that the runtime gave', async () => {
    const server = await serve()
    await expect(serveRuntime({ port: server.port })).rejects.toMatchObject({
      code: 'RUNTIME_PORT_IN_USE',
      port: server.port,
    })
    const client = await RuntimeClient.connect(server.url)
    cleanup.push(() => client.close())
    const waiting = client.query('wait', query)
    // oxlint-disable-next-line vitest/valid-expect -- awaited below, after the close that it waits for
    const refused = expect(waiting).rejects.toMatchObject({ code: /RUNTIME_/ })
    await server.close()
    await refused
  })

  it('takes secrets out of answers and errors', async () => {
    const client = await session()
    const secrets = ['hunter2']
    await expect(client.query('say it is hunter2', { ...query, secrets })).resolves.toMatchObject({
      data: { text: 'it is [REDACTED]' },
    })
    await expect(client.query('fail hunter2', query)).rejects.toThrow('[REDACTED]')
  })

  it('lets in by token alone', async () => {
    const server = await serve({ token: 'right' })
    await expect(RuntimeClient.connect(server.url)).rejects.toMatchObject({ code: 'RUNTIME_UNAUTHORIZED' })
    const client = await RuntimeClient.connect(server.url, { token: 'right' })
    await client.close()
    await expect(serveRuntime({ host: '0.0.0.0', port: 0 })).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    expect((await fetch(`http://127.0.0.1:${server.port}/health`)).status).toBe(200)
  })

  it.each([
    ['an option', (url: string) => [url, { token: 'wrong' }] as const],
    ['the query', (url: string) => [`${url}?token=wrong`, {}] as const],
    ['no way at all', (url: string) => [url, {}] as const],
  ])('says whether the token is wrong or missing: by %s', async (way, call) => {
    const server = await serve({ token: 'right' })
    const [url, options] = call(server.url)
    const words = way === 'no way at all' ? 'requires a token' : 'refused this token'
    await expect(RuntimeClient.connect(url, options)).rejects.toThrow(words)
  })

  it('rejects wrong options by their path, never synchronously', async () => {
    for (const [path, options] of [
      ['port', { port: 70000 }],
      ['handler', { handler: {} }],
      ['heartbeatIntervalMs', { heartbeatIntervalMs: 'x' }],
      ['provider', { provider: 'openai' }],
      ['harness\\.modl', { provider: 'codex', harness: { modl: 'x' }, handler: undefined }],
      ['harness\\.limit', { provider: 'codex', harness: { limit: {} }, handler: undefined }],
      ['harness\\.idleTimeoutMs', { provider: 'codex', harness: { idleTimeoutMs: '5s' } }],
      ['harness', { harness: { model: 'x' } }],
      ['tokn', { tokn: 'x' }],
    ] as [string, any][]) {
      await expect(serveRuntime(options)).rejects.toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringMatching(new RegExp(`^${path}:`)),
      })
    }
    const client = await session()
    await expect(client.query('x', { ...query, timeoutMs: NaN })).rejects.toThrow(/^timeoutMs: /)
    await expect(client.executeCommands([''])).rejects.toThrow(/^commands\[0\]\.command: /)
    await expect(RuntimeClient.connect('http//x')).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await expect(RuntimeClient.connect('ws://127.0.0.1:1')).rejects.toMatchObject({
      code: 'RUNTIME_UNREACHABLE',
      url: 'ws://127.0.0.1:1',
      refused: true,
    })
  })

  it('has a coding agent answer, through the harness', async () => {
    const client = await session({ handler: undefined, provider: scriptedAgent([{ say: 'Hello.' }]) })
    const said: string[] = []
    const { data, metadata } = await client.query('hello', {
      ...query,
      onAssistantMessage: (blocks) => said.push(...blocks),
    })
    expect(data).toMatchObject({ type: 'text', text: 'Hello.' })
    expect(said.join('')).toContain('Hello.')
    expect(metadata).toMatchObject({ session_id: expect.any(String), attempts: 1 })
    await expect(client.executeCommands(['echo too'])).resolves.toMatchObject({
      results: [{ stdout: 'too\n' }],
    })
  })

  it("ends the agent's turns when the harness's signal is aborted", async () => {
    const controller = new AbortController()
    const line = '{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"up"}}'
    const client = await session({
      handler: undefined,
      provider: 'codex',
      harness: { binary: ['/bin/sh', '-c', `echo '${line}'; sleep 60`], signal: controller.signal },
    })
    const asked = client.query('x', { ...query, onAssistantMessage: () => controller.abort() })
    await expect(asked).rejects.toMatchObject({ metadata: { code: 'AGENT_ABORTED' } })
    await expect(client.query('x', query)).rejects.toMatchObject({ metadata: { code: 'AGENT_ABORTED' } })
  })

  it('closes when its signal is aborted', async () => {
    const controller = new AbortController()
    const server = await serve({ signal: controller.signal })
    controller.abort()
    await server.closed
    await expect(serveRuntime({ port: 0, signal: controller.signal })).rejects.toMatchObject({
      code: 'RUNTIME_ABORTED',
    })
  })
})

describe('the real Python client', () => {
  it('is served as it is used to', async ({ skip }) => {
    const { python, problem } = findPython()
    if (!python) return skip(problem)
    const { status, output } = await runClient(python)
    expect(output).not.toContain('failed')
    expect(status).toBe(0)
  })
})
