// The page's server: who is let in, and what a record of anybody's making can't do.
import { request, type IncomingHttpHeaders } from 'node:http'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { RecordSource } from '../dist/cli/view/record_source'
import { serveView } from '../dist/cli/view/server'
import { Harness } from '..'
import { scriptedAgent } from '../entries/testing.js'
import { writeTurn } from './view-records'

type View = Awaited<ReturnType<typeof serveView>>

const folder = mkdtempSync(join(tmpdir(), 'view-server-'))
let view: View
let stopping: View
beforeAll(async () => {
  writeTurn(folder, { id: 'r1', name: 'one', events: 10 })
  view = await serveView({ source: await RecordSource.open(folder) })
  stopping = await serveView({ source: await RecordSource.open(folder), allowStop: true })
})
afterAll(async () => {
  await Promise.all([view.close(), stopping.close()])
  rmSync(folder, { recursive: true })
})

interface Answer {
  status: number
  headers: IncomingHttpHeaders
  body: string
}

/** As it stands: fetch would mend the path and the headers. */
function ask(
  path: string,
  headers: Record<string, string> = {},
  { of = view, method = 'GET' } = {},
): Promise<Answer> {
  const { hostname, port } = new URL(of.url)
  return new Promise((resolve, reject) => {
    const asked = request({ hostname, port, path, headers, method }, (response) => {
      let body = ''
      response.setEncoding('utf8').on('data', (text: string) => (body += text))
      response.on('end', () => resolve({ status: response.statusCode!, headers: response.headers, body }))
    })
    asked.on('error', reject).end()
  })
}

const base = (of = view) => new URL(of.url).pathname
const json = async (path: string) => JSON.parse((await ask(`${base()}api/${path}`)).body)

describe('the server of the page', () => {
  it('is on loopback, under a long token of its own each time', () => {
    expect(view.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/[\w-]{32}\/$/)
    expect(base(view)).not.toBe(base(stopping))
  })

  it('gives the page, and nothing that another page could use', async () => {
    const { status, headers, body } = await ask(base())
    expect({ status, type: headers['content-type'] }).toEqual({
      status: 200,
      type: 'text/html; charset=utf-8',
    })
    expect(body).toContain('<title>Sheepdog</title>')
    expect(headers['content-security-policy']).toContain("default-src 'none'; script-src 'self'")
    expect(headers['content-security-policy']).not.toContain('unsafe')
    expect(headers).toMatchObject({ 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' })
    expect(headers).not.toHaveProperty('access-control-allow-origin')
    for (const name of [
      'page.css',
      'page.js',
      'detail.js',
      'rows.js',
      'timeline.js',
      'format.js',
      'icon.svg',
    ])
      expect((await ask(base() + name)).status, name).toBe(200)
  })

  it.each([
    ['/', {}, 404],
    ['//', {}, 400],
    ['http://[::1', {}, 400],
    ['/api/runs', {}, 404],
    [`/${'x'.repeat(32)}/`, {}, 404],
    ['TOKEN/', { host: 'evil.example' }, 403],
    ['TOKEN/', { host: 'evil.example:80' }, 403],
    ['TOKEN/api/runs', { origin: 'http://evil.example' }, 403],
    ['TOKEN/api/runs', { origin: 'null' }, 403],
    ['TOKEN/../../package.json', {}, 404],
    ['TOKEN/..%2f..%2fpackage.json', {}, 404],
    ['TOKEN/api/runs/..', {}, 404],
    ['TOKEN/api/runs/%2e%2e%2f', {}, 404],
    ['TOKEN/api/runs/nobody', {}, 404],
    ['TOKEN/api/runs/r1/rows?from=-1&count=5', {}, 400],
    ['TOKEN/api/runs/r1/rows?from=1e99&count=5', {}, 400],
    ['TOKEN/api/runs/r1/row?index=99', {}, 404],
    ['TOKEN/api/runs/r1/secrets', {}, 404],
  ] as const)('answers %s with %j by %d', async (path, headers, status) => {
    expect((await ask(path.replace('TOKEN', base().slice(0, -1)), headers)).status).toBe(status)
  })

  it('stops nothing unless it was started so, and asked by its own page', async () => {
    const path = (of: View) => `${base(of)}api/runs/r1/stop`
    const origin = (of: View) => ({ origin: new URL(of.url).origin })
    const post = { method: 'POST' }
    expect((await ask(path(view), origin(view), post)).status).toBe(403)
    expect((await ask(path(stopping), {}, { ...post, of: stopping })).status).toBe(403)
    const { status, body } = await ask(path(stopping), origin(stopping), { ...post, of: stopping })
    expect({ status, body }).toEqual({ status: 200, body: '{"stopped":false}' })
    expect((await ask(path(stopping), origin(stopping), { method: 'DELETE', of: stopping })).status).toBe(405)
  })

  it('gives rows by ranges, and one whole', async () => {
    const rows = await json('runs/r1/rows?from=2&count=3')
    expect(rows).toMatchObject([
      { index: 2, ms: 80, label: 'bash', text: 'make part-2', tone: 'tool', more: 0 },
      { index: 3, label: '↳ exit 0', text: 'built 3 in no time', more: 2 },
      { index: 4 },
    ])
    expect(await json('runs/r1/row?index=3')).toEqual({ text: 'built 3\nin no time', isCut: false })
    expect(await json('runs/r1')).toMatchObject({
      state: 'done',
      rows: 10,
      tokens: { input: 12_345 },
      costUsd: 0.42,
    })
  })

  it('follows no link, reads no pipe, and stands what is no record', async () => {
    writeFileSync(join(folder, 'secret'), '{"kind":"run"}')
    mkdirSync(join(folder, 'linked'))
    symlinkSync(join(folder, 'secret'), join(folder, 'linked/run.json'))
    symlinkSync(join(folder, 'r1'), join(folder, 'link'))
    // As a host leaves it that is killed while it makes a record.
    mkdirSync(join(folder, 'empty'))
    mkdirSync(join(folder, 'broken'))
    writeFileSync(join(folder, 'broken/run.json'), '{"kind":')
    const odd = writeTurn(folder, { id: 'odd', name: 'odd', events: 2 })
    writeFileSync(
      join(odd, 'events.jsonl'),
      'no json\n{"ms":1,"attempt":1}\n{"ms":2,"attempt":1,"event":{"type":"new"}}\n{"cut',
    )
    const { runs } = await json('runs')
    expect(runs.map(({ id }: { id: string }) => id)).toEqual(['r1', 'odd'])
    expect((await ask(`${base()}api/runs/link`)).status).toBe(404)
    expect(await json('runs/odd/rows?from=0&count=9')).toMatchObject([{ label: '?' }, { label: 'new' }])
  })

  it('shows an event with fields of other types as it stands in the file', async () => {
    const odd = [5, 'x', true, null, [1], { a: 1 }, []]
    for (const [at, value] of odd.entries()) {
      const path = writeTurn(folder, { id: `odd${at}`, name: 'odd', events: 2 })
      const fields = ['text', 'name', 'message', 'inputTokens', 'costUsd', 'what', 'sessionId', 'line']
      const event = Object.fromEntries([...fields, 'output', 'input'].map((name) => [name, value]))
      const types = ['text', 'reasoning', 'tool_start', 'tool_end', 'usage', 'error', 'prompt', 'retry']
      const events = [
        ...types,
        'turn_start',
        'warning',
        'session',
        'noise',
        'end',
        'refused',
        'own',
        value,
      ].map((type) => ({ ms: value, attempt: value, event: { ...event, type } }))
      const others = [value, { event: value }, { judged: value }, { judged: { stop: value, retry: value } }]
      const lines = [...events, ...others].map((line) => `${JSON.stringify(line)}\n`)
      writeFileSync(join(path, 'events.jsonl'), lines.join(''))
      const error = { code: value, message: value, kind: value }
      writeFileSync(join(path, 'end.json'), JSON.stringify({ error, result: { text: value, usage: value } }))
      const { rows } = await json(`runs/odd${at}`)
      expect(await json(`runs/odd${at}/rows?from=0&count=${rows}`)).toHaveLength(rows)
      for (let row = 0; row < rows; row++) expect(await json(`runs/odd${at}/row?index=${row}`)).toBeDefined()
      expect(await json(`runs/odd${at}/search?words=x&from=0`)).toBeDefined()
    }
  })
})

it('tells each page what has changed since it asked last, and what was removed', async () => {
  const parent = join(folder, 'changing')
  for (const id of ['r1', 'r2']) writeTurn(parent, { id, name: id, events: 2, end: id === 'r1' })
  await using changing = await serveView({ source: await RecordSource.open(parent) }).then((view) => ({
    ...view,
    [Symbol.asyncDispose]: view.close,
  }))
  const get = (path: string) => ask(`${base(changing)}api/${path}`, {}, { of: changing })
  const news = async (since: number) => JSON.parse((await get(`news?since=${since}`)).body)
  const first = await news(0)
  expect(first).toEqual({ version: 1, ids: expect.arrayContaining(['r1', 'r2']) })
  expect(await Promise.all([news(1), news(1)])).toEqual(Array(2).fill({ version: 1, ids: [] }))
  writeTurn(parent, { id: 'r2', name: 'r2', events: 2 })
  rmSync(join(parent, 'r1'), { recursive: true })
  expect((await get('runs/r1')).status).toBe(404)
  await expect.poll(() => news(1)).toEqual({ version: 2, ids: ['r2', 'r1'] })
  expect(await news(2)).toEqual({ version: 2, ids: [] })
  expect((await get('news')).status).toBe(200)
  expect((await get('news?since=x')).status).toBe(400)
})

it('a session with a failed prompt has failed', async () => {
  const parent = join(folder, 'sessions')
  const provider = scriptedAgent([{ say: 'Fine.' }, { on: 'key', fail: 'auth' }, { say: 'Fine again.' }])
  const harness = new Harness({ provider, record: parent })
  for (const [name, prompts] of Object.entries({ fine: ['hello'], failed: ['key', 'hello'] })) {
    await using session = await harness.open({ name })
    for (const prompt of prompts) await session.prompt(prompt).catch(() => {})
  }
  const source = await RecordSource.open(parent)
  const summaries = (await source.list()).map(({ name, kind, state, ending }) => [name, kind, state, ending])
  expect(summaries).toHaveLength(2)
  expect(Object.fromEntries(summaries.map(([name, ...rest]) => [name, rest]))).toEqual({
    failed: ['session', 'failed', '1 failed prompt'],
    fine: ['session', 'done', null],
  })
  const tokens = Object.fromEntries((await source.list()).map(({ name, tokens }) => [name, tokens]))
  expect(tokens).toEqual({ failed: 15, fine: 15 })
})
