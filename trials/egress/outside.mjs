// The world outside of the sandboxes of `npm run trial -- egress`: a name with a certificate that this process trusts, and servers behind it.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer } from 'node:tls'
import { fail } from '../../scripts/step.mjs'

const NAME = 'model.sheepdog.test'
const FOLDER = 'SHEEPDOG_EGRESS_OUTSIDE'

/**
 * Starts this script again where the name leads to loopback: in a mount namespace with an /etc/hosts of its own, for which root is needed.
 * Without that the servers go by "localhost", which programs reach without the proxy, by the fence's redirect.
 */
export function enter() {
  if (process.env[FOLDER]) return process.once('exit', () => rmSync(process.env[FOLDER], { recursive: true }))
  const folder = mkdtempSync(join(tmpdir(), 'egress-outside-'))
  const openssl = (...args) => {
    const { status, error, stderr } = spawnSync('openssl', args, { encoding: 'utf8' })
    if (status !== 0) fail(`openssl is needed to make a certificate: ${error?.message ?? stderr}`)
  }
  const [key, certificate, hosts] = ['key.pem', 'certificate.pem', 'hosts'].map((name) => join(folder, name))
  const names = `subjectAltName=DNS:${NAME},DNS:other.sheepdog.test,DNS:localhost,IP:127.0.0.1`
  const kind = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
  const content = ['-subj', '/CN=egress', '-addext', names, '-addext', 'basicConstraints=critical,CA:FALSE']
  openssl('req', ...kind, ...content, '-keyout', key, '-out', certificate)
  writeFileSync(hosts, `${readFileSync('/etc/hosts', 'utf8')}\n127.0.0.1 ${NAME} other.sheepdog.test\n`)
  const trusted = process.env.NODE_EXTRA_CA_CERTS
  const others = trusted && existsSync(trusted) ? readFileSync(trusted, 'utf8') : ''
  const bundle = join(folder, 'trusted.pem')
  writeFileSync(bundle, `${others}\n${readFileSync(certificate, 'utf8')}`)
  const again = [process.execPath, ...process.argv.slice(1)]
  const inside = ['--mount', 'sh', '-c', `mount --bind '${hosts}' /etc/hosts && exec "$@"`, 'sh', ...again]
  const isNamed = spawnSync('unshare', ['--mount', 'mount', '--bind', hosts, '/etc/hosts']).status === 0
  const env = {
    ...process.env,
    [FOLDER]: folder,
    NODE_EXTRA_CA_CERTS: bundle,
    SHEEPDOG_EGRESS_NAME: isNamed ? NAME : 'localhost',
  }
  if (!isNamed)
    console.log(`NOT BY NAME: this user can't give ${NAME} an address, so all servers go by "localhost"`)
  const [command, ...args] = isNamed ? ['unshare', ...inside] : again
  const { status } = spawnSync(command, args, { stdio: 'inherit', env })
  process.exit(status ?? 1)
}

/** The real key, which no program may see. */
export const KEY = 'tok_REAL0123456789REAL0123456789'

/** Files below a folder that hold this text. */
export const filesWith = (folder, text) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path, { throwIfNoEntry: false })?.isFile())
    .filter((path) => readFileSync(path).includes(text))

/** The name of all servers outside. */
export const name = process.env.SHEEPDOG_EGRESS_NAME
export const isNamed = name === NAME
/** The hosts to list for a server of this name at this port. The address is one of them, because it is this machine's. */
export const listed = (port) => (isNamed ? [`${name}:${port}`, `127.0.0.1:${port}`] : [`localhost:${port}`])
export const folder = process.env[FOLDER]
export const file = (name) => join(folder, name)

export const identity = () => ({
  key: readFileSync(file('key.pem')),
  cert: readFileSync(file('certificate.pem')),
})

/** TLS in front of a server of plain HTTP. Returns its port, and a function that closes it. */
export async function secure(port) {
  const server = createServer({ ...identity(), ALPNProtocols: ['http/1.1'] }, (client) => {
    const inner = connect(port, '127.0.0.1')
    client.on('error', () => inner.destroy())
    inner.on('error', () => client.destroy())
    client.pipe(inner).pipe(client)
  })
  return { port: await listening(server), close: () => server.close() }
}

/** The port of a server that now listens on loopback. */
export async function listening(server) {
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  return server.address().port
}
