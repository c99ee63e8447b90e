// The page's server: loopback only, a token in the path, and nothing that another page could make a browser do here.
import { elapsedMs } from '../../lib/host'
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { readdirSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { listenOnLoopback } from '../loopback'
import type { FileKind, RunSource } from './source'

export interface ViewOptions {
  source: RunSource
  port?: number
  allowStop?: boolean
}

export interface View {
  url: string
  close(): Promise<void>
}

const pageFolder = join(__dirname, '../../../cli/view/page')
const kinds: Record<string, string> = {
  html: 'text/html',
  css: 'text/css',
  js: 'text/javascript',
  svg: 'image/svg+xml',
}
const files = new Set(readdirSync(pageFolder))
const mostRows = 500
/** Longest text that is searched for. */
const mostWords = 500
/** The source is asked for news at most so often, however many pages ask. */
const leastLookMs = 200

const headers = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'cache-control': 'no-store',
}

class Refusal extends Error {
  constructor(readonly status: number) {
    super(`${status}`)
  }
}

export async function serveView({ source, port = 0, allowStop = false }: ViewOptions): Promise<View> {
  const token = randomBytes(24).toString('base64url')
  const news = new News(source)
  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => {
      const status = error instanceof Refusal ? error.status : 500
      if (response.headersSent) response.destroy()
      else reply(response, status, 'text/plain', `${status}`)
    })
  })
  const bound = await listenOnLoopback(server, port)
  /** The hosts by which it may be asked for. */
  const hosts = new Set([`127.0.0.1:${bound}`, `localhost:${bound}`])

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { host, origin } = request.headers
    // A name that leads here by DNS is not ours, and neither is a page that sends a browser here.
    if (!host || !hosts.has(host)) throw new Refusal(403)
    if (origin !== undefined && origin !== `http://${host}`) throw new Refusal(403)
    const { url: asked = '/' } = request
    if (!URL.canParse(asked, `http://${host}`)) throw new Refusal(400)
    const url = new URL(asked, `http://${host}`)
    const [, given = '', ...path] = url.pathname.split('/').map(decoded)
    if (!isSame(given, token)) throw new Refusal(404)
    if (request.method === 'POST') {
      if (origin === undefined || !allowStop) throw new Refusal(403)
      const [api, runs, id, stop] = path
      if (api !== 'api' || runs !== 'runs' || stop !== 'stop' || path.length !== 4) throw new Refusal(404)
      return json(response, { stopped: await source.stop(id!) })
    }
    if (request.method !== 'GET') throw new Refusal(405)
    if (path[0] === 'api') return api(path.slice(1), url.searchParams, response)
    const name = path.join('/') || 'index.html'
    if (!files.has(name)) throw new Refusal(404)
    reply(response, 200, kinds[name.split('.').at(-1)!]!, await readFile(join(pageFolder, name)))
  }

  async function api(path: string[], query: URLSearchParams, response: ServerResponse): Promise<void> {
    const [what, id, part] = path
    if (what === 'news' && path.length === 1) return json(response, await news.since(number(query, 'since')))
    if (what !== 'runs' || path.length > 3) throw new Refusal(404)
    if (id === undefined) return json(response, { title: source.title, allowStop, runs: await source.list() })
    return readRun(source, id, part, query, response)
  }

  return {
    url: `http://127.0.0.1:${bound}/${token}/`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** One part of a run. */
async function readRun(
  source: RunSource,
  id: string,
  part: string | undefined,
  query: URLSearchParams,
  response: ServerResponse,
): Promise<void> {
  switch (part) {
    case undefined:
      return json(response, await source.detail(id))
    case 'rows': {
      const count = Math.min(number(query, 'count'), mostRows)
      return json(response, await (await source.index(id))?.rows(number(query, 'from'), count))
    }
    case 'row':
      return json(response, await (await source.index(id))?.row(number(query, 'index')))
    case 'search': {
      const words = query.get('words') ?? ''
      if (words === '' || words.length > mostWords) throw new Refusal(400)
      return json(response, await (await source.index(id))?.search(words, number(query, 'from')))
    }
    case 'file':
      return download(source, response, id, query.get('what') ?? 'text')
    case 'processes':
      return json(response, await source.processes(id))
    default:
      throw new Refusal(404)
  }
}

/** Ends of the names of the files that can be had. */
const suffixes = new Map([
  ['text', '.txt'],
  ['stdout', '-stdout'],
  ['stderr', '-stderr'],
  ['events', '-events.jsonl'],
])

async function download(
  source: RunSource,
  response: ServerResponse,
  id: string,
  what: string,
): Promise<void> {
  const suffix = suffixes.get(what)
  if (suffix === undefined) throw new Refusal(400)
  const content = await (what === 'text'
    ? source.index(id).then((index) => index?.lines())
    : source.file(id, what as FileKind))
  if (!content) throw new Refusal(404)
  const name = `${id.replace(/[^\w.-]+/g, '_')}${suffix}`
  response.writeHead(200, {
    ...headers,
    'content-type': 'text/plain; charset=utf-8',
    'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(name)}`,
  })
  // A reader that is slow or goes away ends the reading of the file.
  await pipeline(Readable.from(content), response)
}

/**
 * Which runs have changed, for pages that ask again and again. An answer that stays open would tell it sooner, but a browser has six
 * connections to a server: those of six pages, and the seventh never loads.
 */
class News {
  #version = 0
  /** The version with which each run changed last. */
  readonly #changed = new Map<string, number>()
  #look: Promise<void> | undefined
  #lookedMs = -Infinity

  constructor(readonly source: RunSource) {}

  async since(version: number): Promise<{ version: number; ids: string[] }> {
    // One look serves all pages.
    if (elapsedMs() - this.#lookedMs >= leastLookMs) this.#look ??= this.#poll()
    await this.#look
    const changed = [...this.#changed].filter(([, at]) => at > version)
    return { version: this.#version, ids: changed.map(([id]) => id) }
  }

  async #poll(): Promise<void> {
    const ids = await this.source.poll().finally(() => (this.#look = undefined))
    this.#lookedMs = elapsedMs()
    if (ids.length > 0) this.#version++
    for (const id of ids) this.#changed.set(id, this.#version)
  }
}

/** In a time that says nothing of how much of it is right. */
function isSame(given: string, wanted: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(wanted))
}

/** A part of a path; ids of jobs are whatever their users like. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new Refusal(404)
  }
}

function number(query: URLSearchParams, name: string): number {
  const value = Number(query.get(name))
  if (!Number.isSafeInteger(value) || value < 0) throw new Refusal(400)
  return value
}

function json(response: ServerResponse, value: unknown): void {
  if (value === undefined) throw new Refusal(404)
  reply(response, 200, 'application/json', JSON.stringify(value))
}

function reply(response: ServerResponse, status: number, kind: string, body: string | Buffer): void {
  response.writeHead(status, { ...headers, 'content-type': `${kind}; charset=utf-8` })
  response.end(body)
}
