// Egress of agents: what they were refused, what a meter counts, and who is asked.
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startModelServer } from '../fixtures/model-server.mjs'
import { doctor, Harness, type AgentEvent } from '../index.js'
import {
  askingAgent,
  connect,
  folder,
  hosts,
  inside,
  listed,
  listening,
  other,
  portOf,
  socket,
} from './egress-hosts'

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

    it('cuts the traffic of a session when usage that its agent reports crosses its budget', async () => {
      // Few words: what is metered stays below the budget.
      const url = server.urlFor(JSON.stringify([{ every: true }, { drip: 1000, everyMs: 1000 }]))
      const agent = join(import.meta.dirname, '../fixtures/acp/agent.mjs')
      await using session = await new Harness({ provider: 'claude-code' }).open({
        binary: ['node', agent, '--version', '1'],
        cwd: inside,
        env: { HOME: folder, ANTHROPIC_BASE_URL: url },
        permission: 'auto',
        sandbox: { write: ['.'], network: { hosts: [`127.0.0.1:${server.port}`] } },
        maxTokens: 10_000,
        killGraceMs: 60_000,
      })
      const before = server.requests.length
      const turn = session.prompt(`spends ${url}/v1/messages 20000`)
      const error = await turn.then(String, (error) => error)
      expect(error).toMatchObject({ code: 'AGENT_BUDGET', cap: 'maxTokens', result: { text: 'spent' } })
      expect(await server.requests[before]!.closed).toBe('hung up')
    }, 30_000)

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
