// What handlers in JavaScript may do to their server: anything, and it serves on.
import { once } from 'node:events'
import { request } from 'node:http'
import { createServer, type Socket } from 'node:net'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { RuntimeClient, serveRuntime, type AgentHandler } from '../entries/runtime.js'

const query = { systemPrompt: '', model: '' }
const cleanup: (() => unknown)[] = []

afterEach(async () => {
  for (const step of cleanup.splice(0).reverse()) await step()
})

async function session(run: (...args: Parameters<AgentHandler['run']>) => unknown) {
  const server = await serveRuntime({ handler: { run } as AgentHandler, port: 0 })
  cleanup.push(() => server.close())
  const client = await RuntimeClient.connect(server.url)
  cleanup.push(() => client.close())
  return client
}

const unreadable = {
  'an error with a getter that throws': () =>
    Object.defineProperty(new Error('x'), 'detail', {
      enumerable: true,
      get: () => {
        throw new Error('not for you')
      },
    }),
  'an error whose message throws': () =>
    Object.defineProperty(new Error('x'), 'message', {
      get: () => {
        throw new Error('not for you')
      },
    }),
  'a proxy that refuses everything': () =>
    new Proxy(
      {},
      {
        ownKeys: () => {
          throw new Error('not for you')
        },
      },
    ),
}

describe('a handler that throws', () => {
  for (const [name, make] of Object.entries(unreadable)) {
    it(`${name} fails its request and nothing else`, async () => {
      const client = await session(({ userPrompt }) => {
        if (userPrompt === 'on') return { type: 'text', text: 'on' }
        throw make()
      })
      await expect(client.query('x', query)).rejects.toMatchObject({ code: 'RUNTIME_FAILED' })
      await expect(client.query('on', query)).resolves.toMatchObject({ data: { text: 'on' } })
    })
  }

  it('no error at all, or a circle, is told as what it is', async () => {
    const circle: any = new Error('round')
    circle.self = circle
    circle.cause = circle
    const thrown: unknown[] = ['words', undefined, null, 5, Symbol('s'), circle]
    const client = await session(({ userPrompt }) => Promise.reject(thrown[Number(userPrompt)]))
    const told: unknown[] = []
    for (let index = 0; index < thrown.length; index++) {
      const error = await client.query(`${index}`, query).catch((error) => error)
      told.push([error.message, error.metadata.error_type ?? error.metadata.error_name])
    }
    const unnamed = 'the handler threw a value that is not an error'
    expect(told).toEqual([
      ['words', 'string'],
      [unnamed, 'undefined'],
      [unnamed, 'object'],
      [unnamed, 'number'],
      [unnamed, 'symbol'],
      ['round', 'Error'],
    ])
  })
})

describe('a handler that answers', () => {
  it('with nothing that can be sent fails its request', async () => {
    const answers: unknown[] = [
      undefined,
      { type: 'structured_output', structuredOutput: null },
      { type: 'structured_output', structuredOutput: { toJSON: () => undefined } },
      { type: 'structured_output', structuredOutput: { big: 1n } },
      { type: 'text', text: 5 },
    ]
    const client = await session(({ userPrompt }) => answers[Number(userPrompt)])
    for (let index = 0; index < answers.length; index++) {
      await expect(client.query(`${index}`, query)).rejects.toMatchObject({ code: 'RUNTIME_FAILED' })
    }
  })

  it('without awaiting what it said still has all of it told, in order and before the answer', async () => {
    const count = 3000
    const text = 'x'.repeat(2000)
    const client = await session((_, sender) => {
      for (let number = 0; number < count; number++) void sender.sendAssistantMessage([`${number}`, text])
      return { type: 'text', text: 'done' }
    })
    const said: string[] = []
    const { data } = await client.query('x', {
      ...query,
      onAssistantMessage: ([number]) => said.push(number!),
    })
    expect(data).toEqual({ type: 'text', text: 'done' })
    expect(said).toEqual(Array.from({ length: count }, (_, number) => `${number}`))
  })

  it('without awaiting its own error message is not asked for another', async () => {
    const client = await session((_, sender) => {
      void sender.sendErrorMessage('first', { by: 'sender' })
      throw new Error('second')
    })
    await expect(client.query('x', query)).rejects.toMatchObject({
      message: 'first',
      metadata: { by: 'sender' },
    })
  })

  it('may send and log what it likes', async () => {
    const client = await session(({ logger }, sender) => {
      const circle: any = {}
      circle.self = circle
      logger.debug(circle, 1n, Symbol('s'), undefined)
      // A rejection that nobody awaits is no stray one.
      void sender.sendAssistantMessage('no array' as never)
      return { type: 'text', text: 'fine' }
    })
    await expect(client.query('x', query)).resolves.toMatchObject({ data: { text: 'fine' } })
  })
})

describe('a client', () => {
  it('whose callback rejects is given that error', async () => {
    const client = await session(() => ({ type: 'text', text: 'x' }))
    const request = client.executeCommands(['echo one; sleep 30'], {
      onCommandOutput: async () => {
        throw new TypeError('mine')
      },
    })
    await expect(request).rejects.toThrow(new TypeError('mine'))
    await expect(client.query('x', query)).resolves.toMatchObject({ data: { text: 'x' } })
  })

  it('whose callbacks never settle is told of the deadline, of an abort and of the end, and goes on', async () => {
    const client = await session(() => ({ type: 'text', text: 'x' }))
    let stuck = () => {}
    const isStuck = () => new Promise<void>((resolve) => (stuck = resolve))
    const flood = (options: object) => {
      let given = 0
      return client.executeCommands(['yes | tr -d "\\n"'], {
        onCommandOutput: ({ text }) => {
          given += text.length
          if (given > 1 << 20) stuck()
          return new Promise<void>(() => {})
        },
        ...options,
      })
    }
    await expect(flood({ timeoutMs: 500 })).rejects.toMatchObject({ code: 'RUNTIME_TIMED_OUT' })
    const controller = new AbortController()
    const full = isStuck()
    const aborted = flood({ signal: controller.signal })
    await full
    controller.abort()
    await expect(aborted).rejects.toMatchObject({ code: 'RUNTIME_ABORTED' })
    await expect(client.query('x', query)).resolves.toMatchObject({ data: { text: 'x' } })
    const last = isStuck()
    const ended = flood({}).catch((error: unknown) => error)
    await last
    await client.endSession()
    expect(await ended).toMatchObject({ code: 'RUNTIME_CLOSED' })
  })

  it('that gives up connecting closes its socket', async () => {
    let closed: (() => void) | undefined
    const isClosed = new Promise<void>((resolve) => (closed = resolve))
    const mute = createServer((socket) => {
      socket.resume()
      socket.once('close', () => closed!())
      socket.once('error', () => {})
      controller.abort(new Error('enough'))
    })
    const controller = new AbortController()
    await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve))
    cleanup.push(() => mute.close())
    const url = `ws://127.0.0.1:${(mute.address() as AddressInfo).port}`
    await expect(RuntimeClient.connect(url, { signal: controller.signal })).rejects.toMatchObject({
      code: 'RUNTIME_ABORTED',
      cause: { message: 'enough' },
    })
    await isClosed
  })

  it('is told that a port is none', async () => {
    await expect(RuntimeClient.connect('ws://127.0.0.1:99999')).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringMatching(/^url: .*port/),
    })
  })
})

it("a client's name for its request begins no line of the log", async () => {
  const server = await serveRuntime({
    handler: {
      run: async ({ logger }: { logger: { log(text: string): void } }) => {
        logger.log('done')
        return { type: 'text', text: '' }
      },
    } as AgentHandler,
    port: 0,
  })
  cleanup.push(() => server.close())
  const logged = new Promise<string>((resolve) => {
    const write = process.stderr.write
    cleanup.push(() => (process.stderr.write = write))
    process.stderr.write = ((text: string) => {
      if (text.includes('done')) resolve(text)
      return true
    }) as typeof write
  })
  const socket = await new Promise<Socket>((resolve) => {
    const headers = {
      connection: 'upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
    }
    request({ port: server.port, host: '127.0.0.1', headers })
      .on('upgrade', (_, socket) => resolve(socket as Socket))
      .end()
  })
  cleanup.push(() => socket.destroy())
  const message = JSON.stringify({
    message_type: 'invocation_message',
    system_prompt: '',
    user_prompt: '',
    model: '',
    source_id: 'x]\n\u001b[2J[admin',
  })
  const length = Buffer.byteLength(message)
  // One masked text frame, the mask being zero.
  socket.write(
    Buffer.concat([
      Buffer.from([0x81, 0x80 | 126, length >> 8, length & 255, 0, 0, 0, 0]),
      Buffer.from(message),
    ]),
  )
  expect(await logged).toBe('[x]??[2J[admin] done\n')
})

it('nothing that a handler logs of a client has an effect on the terminal', async () => {
  const prompt = 'a\u001b]52;c;aGk=\u0007b\u001b[2Jc\u009b2Jd\u202ee\rf'
  const server = await serveRuntime({
    port: 0,
    handler: {
      run: async ({ logger, userPrompt }) => {
        logger.log('asked', userPrompt)
        return { type: 'text', text: '' }
      },
    },
  })
  cleanup.push(() => server.close())
  const write = process.stderr.write
  cleanup.push(() => (process.stderr.write = write))
  let logged = ''
  process.stderr.write = ((text: string) => {
    logged += text
    return true
  }) as typeof write
  const client = await RuntimeClient.connect(server.url)
  cleanup.push(() => client.close())
  await client.query(prompt, query)
  expect(logged).toMatch(/^\[[\w-]+\] asked a[^]*f\n$/)
  // eslint-disable-next-line no-control-regex
  expect(logged).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/)
})

it('a secret is taken out of everything that the logger writes, however it is nested and quoted', async () => {
  const secret = `it's "se\ncret"\\`
  class Box {
    kept = secret
  }
  const server = await serveRuntime({
    port: 0,
    handler: {
      run: async ({ logger }) => {
        logger.log(
          { a: secret, b: [{ [secret]: 1 }] },
          new Map([[secret, secret]]),
          new Set([secret]),
          new Box(),
        )
        logger.error(new Error(secret), { cause: new Error(secret) }, [
          new Date(0),
          new URL('http://a.invalid/'),
        ])
        return { type: 'text', text: 'x' }
      },
    },
  })
  cleanup.push(() => server.close())
  let written = ''
  const write = vi
    .spyOn(process.stderr, 'write')
    .mockImplementation((text) => ((written += String(text)), true))
  const client = await RuntimeClient.connect(`ws://127.0.0.1:${server.port}`)
  cleanup.push(() => client.close())
  await client.query('x', { ...query, secrets: [secret] })
  write.mockRestore()
  expect(written).toContain('Box {')
  expect(written).toContain('1970-01-01T00:00:00.000Z')
  for (const part of ['cret', 'it\'s "se']) expect(written).not.toContain(part)
})

describe('a handler', () => {
  it('may answer with an object', async () => {
    const client = await session(() => ({
      type: 'structured_output',
      structuredOutput: { n: [1, { é: null }] },
      metadata: { of: 'mine' },
    }))
    await expect(client.query('x', query)).resolves.toMatchObject({
      data: { type: 'structured_output', structuredOutput: { n: [1, { é: null }] } },
      metadata: { of: 'mine' },
    })
  })

  it('may end its request by an error, which aborts it', async () => {
    let reason: Promise<unknown> | undefined
    const client = await session(async ({ signal, userPrompt }, sender) => {
      if (userPrompt === 'on') return { type: 'text', text: 'on' }
      reason = once(signal, 'abort')
      await sender.sendErrorMessage('no more', { spent: 3 })
      await reason
      return { type: 'text', text: 'too late' }
    })
    await expect(client.query('x', query)).rejects.toMatchObject({
      code: 'RUNTIME_FAILED',
      message: 'no more',
      metadata: { spent: 3 },
    })
    await reason
    await expect(client.query('on', query)).resolves.toMatchObject({ data: { text: 'on' } })
  })
})

it('no more sessions than maxSessions are let in, and one that ends makes room', async () => {
  const handler: AgentHandler = { run: async () => ({ type: 'text', text: 'hi' }) }
  const server = await serveRuntime({ handler, port: 0, maxSessions: 1 })
  cleanup.push(() => server.close())
  const first = await RuntimeClient.connect(server.url)
  await expect(RuntimeClient.connect(server.url)).rejects.toMatchObject({
    code: 'RUNTIME_UNREACHABLE',
    status: 503,
  })
  await first.close()
  // The server may learn of the end a moment later.
  const second = await vi.waitFor(() => RuntimeClient.connect(server.url), { timeout: 25_000, interval: 20 })
  cleanup.push(() => second.close())
  await expect(second.query('x', query)).resolves.toMatchObject({ data: { text: 'hi' } })
})
