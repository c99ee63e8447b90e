// Figures of the runtime: node bench/runtime.mjs [NAME ...]. Each stands beside the one that was measured of the existing pair,
// and beside a plain loop of this machine (`pace`), as times of a shared machine mean little alone.
import { spawn } from 'node:child_process'
import {
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  ftruncateSync,
  closeSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { RuntimeClient } from '../index.js'
import { servePuppet } from '../scripts/interop.mjs'

const wanted = process.argv.slice(2)
const now = () => performance.now()
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]

/** How fast this machine is at the moment: milliseconds of a fixed piece of work. */
function pace() {
  const started = now()
  let text = ''
  for (let index = 0; index < 2_000_000; index++) text = `${index}${text.slice(0, 8)}`
  return now() - started
}

async function serve() {
  const started = now()
  const { server: child, port } = await servePuppet()
  const rss = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${child.pid}/status`, 'utf8'))[1]) * 1024
  return {
    url: `ws://127.0.0.1:${port}`,
    port,
    readyMs: now() - started,
    rss,
    stop: () => child.kill('SIGTERM'),
  }
}

async function sink() {
  let bytes = 0
  let count = 0
  const server = createServer((request, response) => {
    request.on('data', (part) => (bytes += part.length))
    request.on('end', () => {
      count++
      response.end()
    })
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = (name) => ({
    presignedUrl: `http://127.0.0.1:${server.address().port}/${name}`,
    contentType: 'text/plain',
  })
  return {
    url,
    bytes: () => bytes,
    count: () => count,
    stop: () => server.closeAllConnections() ?? server.close(),
  }
}

const folder = () => mkdtempSync(join(tmpdir(), 'sheepdog-bench-'))
const mb = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`
const ms = (value) => `${value.toFixed(value < 100 ? 1 : 0)} ms`

/** The most that memory grew by while the work ran. */
async function growth(server, work) {
  const before = server.rss()
  let most = before
  const watch = setInterval(() => (most = Math.max(most, server.rss())), 20)
  await work()
  clearInterval(watch)
  return Math.max(most, server.rss()) - before
}

const benches = {
  async ready(_server) {
    const times = []
    for (let round = 0; round < 5; round++) {
      const other = await serve()
      times.push(other.readyMs)
      other.stop()
    }
    return ['ready after start', ms(median(times)), '1.1 s', '250 ms']
  },
  async end(server) {
    const times = []
    for (let round = 0; round < 20; round++) {
      const directory = folder()
      const client = await RuntimeClient.connect(server.url)
      await client.executeCommands(['true'], {
        artifactsDirs: [directory],
        onArtifactUploadRequest: () => {},
      })
      const started = now()
      await client.endSession()
      times.push(now() - started)
      await client.close()
      rmSync(directory, { recursive: true })
    }
    return ['end_session to confirm, nothing pending (p50)', ms(median(times)), '3,007 ms', '20 ms']
  },
  async late(server) {
    const target = await sink()
    const directory = folder()
    const client = await RuntimeClient.connect(server.url)
    const onArtifactUploadRequest = ({ filename }) => target.url(filename)
    await client.executeCommands(['true'], { artifactsDirs: [directory], onArtifactUploadRequest })
    const started = now()
    for (let number = 0; number < 1000; number++)
      writeFileSync(join(directory, `${number}`), `late ${number}`)
    const end = await client.endSession()
    const took = now() - started
    await client.close()
    target.stop()
    rmSync(directory, { recursive: true })
    return [`1,000 late files, ${end.uploaded} uploaded`, ms(took), '3.0-3.25 s', '1.5 s']
  },
  async slowCallback(server) {
    const target = await sink()
    const directory = folder()
    const client = await RuntimeClient.connect(server.url)
    const started = now()
    await client.executeCommands(
      [{ command: 'for n in $(seq 1000); do echo $n > $n; done', cwd: directory }],
      {
        artifactsDirs: [directory],
        onArtifactUploadRequest: async ({ filename }) => {
          await sleep(100)
          return target.url(filename)
        },
      },
    )
    const end = await client.endSession()
    const took = now() - started
    await client.close()
    target.stop()
    rmSync(directory, { recursive: true })
    return [`1,000 files, 100 ms a callback: ${end.uploaded} delivered`, ms(took), '371 delivered', '1,000']
  },
  async large(server) {
    const target = await sink()
    const directory = folder()
    mkdirSync(join(directory, 'out'))
    const client = await RuntimeClient.connect(server.url)
    const started = now()
    const grown = await growth(server, async () => {
      const onArtifactUploadRequest = ({ filename }) => target.url(filename)
      await client.executeCommands(['true'], {
        artifactsDirs: [join(directory, 'out')],
        onArtifactUploadRequest,
      })
      const file = openSync(join(directory, 'out/large'), 'w')
      ftruncateSync(file, 2 ** 30)
      closeSync(file)
      await client.endSession()
    })
    await client.close()
    target.stop()
    rmSync(directory, { recursive: true })
    return [`1 GiB artifact in ${ms(now() - started)}: RSS`, mb(grown), '3.2 GB', '32 MB']
  },
  async deaf(server) {
    // A client that asks for output and reads none: spoken by hand, as libraries read.
    const socket = connect(server.port, '127.0.0.1')
    const grown = await growth(server, async () => {
      socket.write(
        'GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n',
      )
      await new Promise((resolve) => socket.once('data', resolve))
      socket.pause()
      const text = JSON.stringify({
        message_type: 'command_execution_message',
        commands: [{ command: "head -c 1000000000 /dev/zero | tr '\\0' x" }],
      })
      socket.write(
        Buffer.concat([
          Buffer.from([0x81, 0x80 | 126, text.length >> 8, text.length & 255, 0, 0, 0, 0]),
          Buffer.from(text),
        ]),
      )
      await sleep(5000)
    })
    socket.destroy()
    return ['a client that does not read, 1 GB of output: RSS', mb(grown), 'to 937 MB', '60 MB']
  },
  async output(server) {
    const client = await RuntimeClient.connect(server.url)
    const total = 1_000_000_000
    let seen = 0
    const started = now()
    await client.executeCommands([`head -c ${total} /dev/zero | tr '\\0' x`], {
      onCommandOutput: ({ text }) => (seen += text.length),
    })
    const took = now() - started
    await client.close()
    const alone = now()
    await new Promise((resolve) => {
      const child = spawn('sh', ['-c', `head -c ${total} /dev/zero | tr '\\0' x`])
      child.stdout.resume()
      child.once('close', resolve)
    })
    const ratio = ((now() - alone) / took).toFixed(2)
    return [
      `output of a command (${ratio} of a plain pipe to node)`,
      `${mb((seen / took) * 1000)}/s`,
      '22-33 MB/s',
      '150 MB/s',
    ]
  },
  async sessions(server) {
    const target = await sink()
    const started = now()
    await Promise.all(
      Array.from({ length: 200 }, async (_, number) => {
        const directory = folder()
        const client = await RuntimeClient.connect(server.url)
        await client.executeCommands([{ command: `echo ${number} > file`, cwd: directory }], {
          artifactsDirs: [directory],
          onArtifactUploadRequest: () => target.url(`${number}`),
        })
        await client.close()
        rmSync(directory, { recursive: true })
      }),
    )
    const took = now() - started
    const count = target.count()
    target.stop()
    return [`200 sessions with an artifact each, ${count} uploaded`, ms(took), '4.4 s', '2 s']
  },
  async idle(server) {
    const clients = []
    const grown = await growth(server, async () => {
      for (let number = 0; number < 1000; number += 50) {
        const batch = Array.from({ length: 50 }, () => RuntimeClient.connect(server.url))
        clients.push(...(await Promise.all(batch)))
      }
      await sleep(300)
    })
    await Promise.all(clients.map((client) => client.close()))
    return ['1,000 idle sessions: RSS', mb(grown), '', '40 MB']
  },
}

console.log('| what | measured | existing pair | goal | pace |\n|---|---|---|---|---|')
for (const [name, bench] of Object.entries(benches)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue
  const server = await serve()
  try {
    const row = await bench(server)
    console.log(`| ${row.join(' | ')} | ${ms(pace())} |`)
  } catch (error) {
    console.log(`| ${name} | ${error.code ?? ''} ${error.message} | | | |`)
  }
  server.stop()
}
