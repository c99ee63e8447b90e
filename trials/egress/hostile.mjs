// Every way out that was thought of, with a sandbox and without, as root and as an ordinary user. The rows are what the hostile programs
// print (fixtures/sandbox/reach.rs and egress-client.mjs): each must be refused inside, and each must work outside, or it proves nothing.
import { spawn, spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { createSecureServer } from 'node:http2'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checkoutFor } from '../../fixtures/other-user.mjs'
import { fail, root } from '../../scripts/step.mjs'
import { FAILED } from '../cases.mjs'
import { KEY, file, folder, identity, isNamed, listed, listening, name } from './outside.mjs'

/** Attempts that succeed in the sandbox: they are what it allows. */
const allowed = /^(?:gate|own-|closed-port$|socket-inside|listed-host$)/
/** Attempts that need a privilege, IPv6, a server that is not here, or a kernel with the protocol: without a sandbox they may fail as well. */
const elsewhere = [
  'raw', 'packet', 'sctp', 'vsock', 'ping', 'io-uring', 'multipath', 'source-route-six', 'server-on-an-interface',
  'name-server', 'source-route', 'abstract', 'datagram', 'datagram-of-a-pair', 'fast-open', 'fast-open-message', 'address-as-a-number', 'address-mapped',
] // prettier-ignore
/** Their targets are other machines, so they are tried in the sandbox alone. */
const heldOnly = ['address', 'metadata', 'address-six', 'address-mapped']
const TRIES = Number(process.env.EGRESS_RACES ?? 1000)

async function servers() {
  const redirect = {}
  const answer = ({ url, headers }, response) => {
    const seen = headers.authorization ?? ''
    if (url === '/redirect') return response.writeHead(302, { location: redirect.to }).end()
    response.writeHead(200, { 'x-seen': seen }).end(seen)
  }
  const secure = async () => {
    const server = createSecureServer({ ...identity(), allowHTTP1: true }, answer)
    server.on('upgrade', (_, socket) =>
      socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'),
    )
    return { server, port: await listening(server) }
  }
  const [one, two, three] = [await secure(), await secure(), await secure()]
  redirect.to = `https://${name}:${three.port}/`
  const plain = createServer(answer)
  const targets = {
    name,
    listed: one.port,
    second: two.port,
    other: three.port,
    plain: await listening(plain),
  }
  const close = () => [one.server, two.server, three.server, plain].forEach((server) => server.close())
  return { targets, close }
}

/** The outcome of every attempt of a host that runs as this user. */
function outcomes(uid, options) {
  const host = join(checkoutFor(uid), 'fixtures/sandbox/egress-host.mjs')
  const env = {
    ...process.env,
    HOME: '/tmp',
    TMPDIR: options.place,
    NODE_EXTRA_CA_CERTS: file('trusted.pem'),
  }
  const args = [host, JSON.stringify({ ...options, abstract: `sheepdog-egress-${process.pid}-${uid}` })]
  const ids = uid === process.getuid() ? {} : { uid, gid: uid }
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, args, {
      cwd: '/',
      env,
      ...ids,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let text = ''
    child.stdout.setEncoding('utf8').on('data', (part) => (text += part))
    child.once('close', (status) =>
      status === 0
        ? resolve(JSON.parse(text))
        : reject(new Error(`the host of user ${uid} ended with ${status}`)),
    )
  })
}

function judge(attempt, control, held) {
  const isDone = held === 'done'
  const problems = []
  if (held === undefined) problems.push('not tried in the sandbox')
  if (attempt === 'own-key' ? !isDone : isDone !== allowed.test(attempt))
    problems.push(isDone ? 'not refused' : `refused: ${held}`)
  const hasControl = ![...elsewhere, ...heldOnly].includes(attempt) && !allowed.test(attempt)
  if (hasControl && control !== 'done') problems.push(`fails without a sandbox too: ${control}`)
  return problems
}

export async function run(words) {
  const users = process.getuid() === 0 ? [0, 65534] : [process.getuid()]
  if (users.length === 1) console.log('ONE USER: without root the rows are tried as this user alone')
  const place = mkdtempSync(join(tmpdir(), 'egress-hostile-'))
  for (const path of [place, folder]) chmodSync(path, 0o755)
  const reach = join(place, 'reach')
  const built = spawnSync(
    'rustc',
    ['--edition', '2024', '-O', '-o', reach, join(root, 'fixtures/sandbox/reach.rs')],
    { stdio: 'inherit' },
  )
  if (built.status !== 0) fail('the hostile program does not compile: rustc is needed')
  const { targets, close } = await servers()
  const hosts = [targets.listed, targets.second, targets.plain].flatMap((port) => listed(port))
  const seen = []
  for (const uid of users) {
    const home = mkdtempSync(join(place, `user-${uid}-`))
    chmodSync(home, 0o777)
    seen.push(await outcomes(uid, { targets, hosts, key: KEY, reach, tries: TRIES, place: home }))
  }
  close()
  rmSync(place, { recursive: true, force: true })
  const titles = new Set(seen.flatMap(({ control, held }) => Object.keys({ ...control, ...held })))
  const head = users.flatMap((uid) => [`user ${uid}, no sandbox`, `user ${uid}, in it`])
  const rows = [['attempt', ...head]]
  for (const title of titles) {
    const cells = seen.flatMap(({ control, held }) => {
      const problems = judge(title, control[title], held[title])
      const outcome = problems.length > 0 ? `${FAILED}: ${problems.join('; ')}` : held[title]
      return [control[title] ?? 'not tried', outcome]
    })
    if (cells.some((cell) => cell.startsWith(FAILED))) console.log(`FAILED ${title}: ${cells.join(' | ')}`)
    rows.push([title, ...cells])
    if (words.length === 0 || words.includes(title)) console.log(rows.at(-1).join(' | '))
  }
  console.log(`${titles.size} attempts, ${users.length} users${isNamed ? '' : ', by localhost alone'}`)
  return { rows, isWhole: users.length === 2 }
}
