// A fleet over TLS: whom it trusts, and the example's cluster of three servers as it stands.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { Fleet } from '../entries/fleet.js'
import { hasServer, newFolder } from './fleet-worker'
import { freePorts, serve } from './nats-server'
import { failure } from './played-agent'

const hasOpenssl = spawnSync('openssl', ['version']).status === 0
if (!hasOpenssl && process.env.CI) throw new Error('the tests of TLS need openssl')
if (!hasOpenssl) console.warn('TLS OF A FLEET IS NOT TESTED: no openssl')

const openssl = (folder: string, ...args: string[]) => {
  const { status, stderr } = spawnSync('openssl', args, { cwd: folder, encoding: 'utf8' })
  if (status !== 0) throw new Error(stderr)
}

/** Who signs: ca.pem and ca.key in a folder of their own; cert.pem and key.pem are of a server for this name. */
function certificates(name: string): string {
  const folder = newFolder()
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  openssl(
    folder,
    'req',
    '-x509',
    ...curve,
    '-keyout',
    'ca.key',
    '-out',
    'ca.pem',
    '-days',
    '2',
    '-subj',
    '/CN=us',
  )
  openssl(folder, 'req', ...curve, '-keyout', 'key.pem', '-out', 'request.pem', '-subj', '/CN=server')
  writeFileSync(
    join(folder, 'extensions'),
    `subjectAltName=${name}\nextendedKeyUsage=serverAuth,clientAuth\nbasicConstraints=CA:FALSE\n`,
  )
  openssl(
    folder,
    ...['x509', '-req', '-in', 'request.pem', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial'],
    ...['-out', 'cert.pem', '-days', '2', '-extfile', 'extensions'],
  )
  chmodSync(join(folder, 'key.pem'), 0o600)
  return folder
}

async function tlsServer(folder: string): Promise<string> {
  const [port] = await freePorts(1)
  await serve(
    `listen: "127.0.0.1:${port}"
    jetstream { store_dir: "${newFolder()}", max_file_store: 1GB }
    tls { cert_file: "${folder}/cert.pem", key_file: "${folder}/key.pem" }`,
    port!,
  )
  return `127.0.0.1:${port}`
}

describe.runIf(hasServer && hasOpenssl)('over TLS', () => {
  it('a job is done when the server is trusted, and nobody else is believed', async () => {
    const folder = certificates('IP:127.0.0.1')
    const address = await tlsServer(folder)
    // The server wants TLS whatever the address says.
    for (const scheme of ['tls', 'nats']) {
      const fleet = await Fleet.connect({ servers: `${scheme}://${address}`, ca: join(folder, 'ca.pem') })
      const worker = await fleet.work({ handlers: { sum: (job) => job.data[0] + job.data[1] } })
      expect(await (await fleet.submit({ handler: 'sum', data: [1, 2] })).result).toBe(3)
      await worker.close()
      await fleet.close()
    }
    const others = certificates('IP:127.0.0.1')
    for (const ca of [undefined, join(others, 'ca.pem')]) {
      const error = await failure(Fleet.connect({ servers: `tls://${address}`, ca }))
      expect(error).toMatchObject({ code: 'FLEET_UNREACHABLE', servers: [`tls://${address}`] })
      expect(error.message).toMatch(/not trusted .*(UnknownIssuer|BadSignature).*`ca`.*NODE_EXTRA_CA_CERTS/)
    }
  })

  it('trusts whom NODE_EXTRA_CA_CERTS adds', async () => {
    const folder = certificates('IP:127.0.0.1')
    const address = await tlsServer(folder)
    const program = `require('${join(__dirname, '../entries/fleet.js')}').Fleet.connect({ servers: 'tls://${address}' }).then((f) => f.close())`
    const env = { ...process.env, NODE_EXTRA_CA_CERTS: join(folder, 'ca.pem') }
    const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'inherit', 'inherit'], env })
    expect(await once(child, 'exit')).toEqual([0, null])
  })

  it('a certificate for another name is not believed', async () => {
    const folder = certificates('DNS:elsewhere.example')
    const address = await tlsServer(folder)
    const error = await failure(Fleet.connect({ servers: `tls://${address}`, ca: join(folder, 'ca.pem') }))
    expect(error.code).toBe('FLEET_UNREACHABLE')
    expect(error.message).toContain('connect by a name that the certificate contains')
  })

  it('says what is wrong with the file', async () => {
    const empty = join(newFolder(), 'empty.pem')
    writeFileSync(empty, '')
    for (const [ca, problem] of [
      ['/nowhere/ca.pem', "can't be read"],
      [empty, 'contains no certificate'],
    ] as const) {
      const error = await failure(Fleet.connect({ servers: 'tls://127.0.0.1:1', ca }))
      expect(error.code).toBe('INVALID_OPTION')
      expect(error.message).toMatch(new RegExp(`^ca: .*${problem}`))
    }
  })
})

describe.runIf(hasServer && hasOpenssl)("the example's three servers", () => {
  it('are one fleet over TLS with three copies, and go on when one is lost', async () => {
    const folder = certificates('IP:127.0.0.1')
    const ports = await freePorts(6)
    const routes = `[${[3, 4, 5].map((n) => `nats://127.0.0.1:${ports[n]}`).join(', ')}]`
    const servers = await Promise.all(
      [0, 1, 2].map((n) => {
        const text = readFileSync(join(__dirname, '../examples/fleet/nats-server.conf'), 'utf8')
          .replace('0.0.0.0:4222', `127.0.0.1:${ports[n]}`)
          .replace('0.0.0.0:6222', `127.0.0.1:${ports[n + 3]}`)
          .replaceAll('/etc/nats/', `${folder}/`)
          .replace('/var/lib/nats', newFolder())
          .replace('100GB', '1GB')
        const secrets = {
          STORE_KEY: 'k-secret',
          ADMIN_PASSWORD: 'a-secret',
          WORKER_PASSWORD: 'w-secret',
          SUBMITTER_PASSWORD: 's-secret',
          OPERATOR_PASSWORD: 'o-secret',
        }
        return serve(text, ports[n]!, { NAME: `n${n}`, ROUTES: routes, ...secrets })
      }),
    )
    const as = (user: string) => ({
      servers: [0, 1, 2].map((n) => `tls://${user}:${user[0]}-secret@127.0.0.1:${ports[n]}`),
      ca: join(folder, 'ca.pem'),
    })
    // Until they have found each other there is no room for three copies.
    const admin = await vi.waitFor(() => Fleet.connect({ ...as('admin'), replicas: 3 }), {
      timeout: 60_000,
      interval: 500,
    })
    const [workers, submitters] = [await Fleet.connect(as('worker')), await Fleet.connect(as('submitter'))]
    const worker = await workers.work({ handlers: { twice: (job) => job.data * 2 } })
    expect(await (await submitters.submit({ handler: 'twice', data: 2 })).result).toBe(4)
    servers[0]!.kill('SIGKILL')
    await once(servers[0]!, 'exit')
    const job = await vi.waitFor(() => submitters.submit({ handler: 'twice', data: 3, id: 'after' }), {
      timeout: 60_000,
      interval: 500,
    })
    expect(await job.result).toBe(6)
    await worker.close()
    for (const fleet of [workers, submitters, admin]) await fleet.close()
  }, 240_000)
})
