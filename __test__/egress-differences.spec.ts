// Requests of clients and answers of origins, straight and through the proxy of a sandbox: the table of egress-situations.ts by curl, Python, Node and a
// browser, with a secret and, by curl, without one. A difference is a fault, or a row of docs/internals/egress.md.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { run, sandboxSupport } from '..'
import { answers, requests } from './egress-situations'

const root = join(import.meta.dirname, '..')
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'egress-differences-')))
const secret = 'a-secret-of-its-own'

/** The words of the origin about a request: its first line, and whether the secret came. */
const echo = (head: string) => {
  const text = JSON.stringify([head.split('\r\n')[0], head.includes(secret)])
  return `HTTP/1.1 200 OK\r\nContent-Length: ${Buffer.byteLength(text, 'latin1')}\r\nConnection: close\r\n\r\n${text}`
}

const page = (paths: string[]) => `<body><script>
  const shown = ['x-odd', 'content-length', 'content-encoding']
  ;(async () => {
    const ends = []
    for (const line of ${JSON.stringify(paths)}) {
      const [method, path] = line.split(' ')
      try {
        const answer = await fetch(path, { method, body: method === 'PUT' ? 'x'.repeat(300000) : undefined, headers: { 'x-key': 'none' }, cache: 'no-store', signal: AbortSignal.timeout(10000) })
        ends.push({ status: answer.status, headers: Object.fromEntries(shown.map((name) => [name, answer.headers.get(name)])), body: await answer.text() })
      } catch { ends.push({ error: true }) }
    }
    document.body.textContent = '<<' + btoa(unescape(encodeURIComponent(JSON.stringify(ends)))) + '>>'
  })()
</script>`

let paths: string[]
const server = createServer((socket: Socket) => {
  let [head, isAnswered] = ['', false]
  socket.on('error', () => {})
  socket.on('data', (bytes) => {
    if (isAnswered) return
    head += bytes.toString('latin1')
    const end = head.indexOf('\r\n\r\n')
    if (end < 0) return
    const [, method, path] = /^(\S+) (\S+)/.exec(head) ?? []
    const odd = answers[Number(/^\/answer\/(\d+)$/.exec(path ?? '')?.[1] ?? -1)]
    // An upload is read before the answer, unless the answer is a refusal of it.
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(head)?.[1] ?? 0)
    const isChunked = /\r\ntransfer-encoding: chunked/i.test(head.slice(0, end + 2))
    if (!odd?.early) {
      if (/\r\nexpect: 100/i.test(head) && head.length === end + 4)
        socket.write('HTTP/1.1 100 Continue\r\n\r\n')
      if (method === 'PUT' && (isChunked ? !head.endsWith('0\r\n\r\n') : head.length - end - 4 < length))
        return
    }
    isAnswered = true
    if (path === '/page') {
      const text = page(paths)
      socket.end(
        `HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: ${text.length}\r\nConnection: close\r\n\r\n${text}`,
      )
    } else socket.end(odd ? odd.answer : echo(head.slice(0, end + 2)), 'latin1')
  })
})
beforeAll(() => {
  paths = [
    ...answers.map(({ method }, index) => `${method ?? 'GET'} /answer/${index}`),
    ...requests.map(({ line }) => line),
  ]
  return new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
})
afterAll(() => {
  server.close()
  rmSync(folder, { recursive: true, force: true })
})
const place = () => `localhost:${(server.address() as AddressInfo).port}`
const base = () => `http://${place()}`

const chromium = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--virtual-time-budget=60000',
  '--dump-dom',
]
const clients: Record<string, () => string[]> = {
  curl: () => ['python3', join(root, 'fixtures/egress/client.py'), 'curl', base(), 'no', ...paths],
  python: () => ['python3', join(root, 'fixtures/egress/client.py'), 'python', base(), 'no', ...paths],
  node: () => [process.execPath, join(root, 'fixtures/egress/client.mjs'), base(), ...paths],
  chromium: () => [
    'chromium',
    `--user-data-dir=${mkdtempSync(join(folder, 'browser-'))}`,
    ...chromium,
    `${base()}/page`,
  ],
}
const hasProgram = (name: string) => {
  try {
    return execFileSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }) !== ''
  } catch {
    return false
  }
}

type Way = 'straight' | 'with a secret' | 'by the proxy'

async function endsOf(client: string, way: Way, key = false): Promise<unknown[]> {
  const [file, ...args] = clients[client]!()
  if (way === 'by the proxy') args[args.indexOf('no')] = 'yes'
  const network =
    way === 'with a secret' ? { secrets: { KEY: { value: secret, hosts: [place()] } } } : { hosts: [place()] }
  const cwd = mkdtempSync(join(folder, 'client-'))
  const { stdout, stderr } = await run(file!, args, {
    cwd,
    env: { HOME: cwd, TMPDIR: cwd, ...(key ? { KEY: secret } : {}) },
    maxOutputBytes: 20_000_000,
    ...(way === 'straight' ? {} : { sandbox: { write: [folder], network } }),
  })
  const told = /(?:<<|&lt;&lt;)([\w+/=]+)(?:>>|&gt;&gt;)/.exec(stdout)?.[1]
  if (client !== 'chromium')
    return stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown)
  if (told === undefined)
    throw new Error(`the browser told nothing: ${stdout.slice(0, 2000)}${stderr.slice(-2000)}`)
  return JSON.parse(Buffer.from(told, 'base64').toString()) as unknown[]
}

const ways: [string, Way][] = [
  ['curl', 'with a secret'],
  ['python', 'with a secret'],
  ['node', 'with a secret'],
  ['chromium', 'with a secret'],
  ['curl', 'by the proxy'],
]

describe.skipIf(!sandboxSupport().network)('a sandbox passes on what is said', () => {
  it.each(ways)('%s %s', async (client, way) => {
    if (!hasProgram(client === 'python' ? 'python3' : client)) return
    const [straight, passed] = [
      await endsOf(client, 'straight', way !== 'by the proxy'),
      await endsOf(client, way),
    ]
    const rows = [...answers, ...requests]
    expect([straight.length, passed.length]).toEqual([rows.length, rows.length])
    const differences = rows.flatMap(({ name, differs }, index) => {
      const [there, here] = [straight[index], passed[index]].map((end) => JSON.stringify(end))
      // curl itself leaves an empty query out, in requests to a proxy.
      const isOwn = way === 'by the proxy' && name === 'an empty query'
      return there === here || isOwn || differs
        ? []
        : [{ name, there: there?.slice(0, 300), here: here?.slice(0, 300) }]
    })
    expect(differences).toEqual([])
  })

  it('says each difference in docs/internals/egress.md', () => {
    const text = readFileSync(join(root, 'docs/internals/egress.md'), 'utf8').replace(/\s+/g, ' ')
    const told = [...answers, ...requests].flatMap(({ differs }) => differs ?? [])
    expect(told.filter((words) => !text.includes(words))).toEqual([])
  })
})
