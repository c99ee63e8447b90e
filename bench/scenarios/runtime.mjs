// The runtime and its client: times, memory of the server, and what gets through. What the existing pair (Python client and its
// server) took stands in docs/internals/runtime.md.
import {
  closeSync,
  ftruncateSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sheepdog from '../../entries/runtime.js'
import { servePuppet } from '../../__test__/interop/python.mjs'
import { median } from '../round.mjs'
import { table } from '../verdict.mjs'

const { RuntimeClient } = sheepdog

/** What is measured, with the figure that was promised. */
const measures = {
  ready: ['ready after its start', '<=', 250, ' ms'],
  end: ['end_session to its confirmation, nothing pending', '<=', 20, ' ms'],
  late: ['1,000 late files, all uploaded', '<=', 1500, ' ms'],
  slowCallback: ['1,000 files, 100 ms a callback: delivered', '>=', 1000, ''],
  large: ['an artifact of 1 GiB: memory', '<=', 32, ' MB'],
  deaf: ['a client that does not read, 1 GB of output: memory', '<=', 60, ' MB'],
  output: ['output of a command', '>=', 150, ' MB/s'],
  sessions: ['200 sessions with an artifact each', '<=', 2000, ' ms'],
  idle: ['1,000 idle sessions: memory', '<=', 40, ' MB'],
}

export function plan({ quick }) {
  return { rounds: quick ? 1 : 3, contenders: Object.keys(measures).map((name) => ({ name })) }
}

export const title = () => 'a served agent: times, memory of the server, output'

const now = () => performance.now()
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const folder = () => mkdtempSync(join(tmpdir(), 'sheepdog-bench-'))

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

/** The most that memory grew by while the work ran. */
async function growth(server, work) {
  const before = server.rss()
  let most = before
  const watch = setInterval(() => (most = Math.max(most, server.rss())), 20)
  await work()
  clearInterval(watch)
  return Math.max(most, server.rss()) - before
}

const works = {
  async ready(_server) {
    const times = []
    for (let round = 0; round < 5; round++) {
      const other = await serve()
      times.push(other.readyMs)
      other.stop()
    }
    return median(times)
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
    return median(times)
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
    if (end.uploaded !== 1000) throw new Error(`${end.uploaded} uploaded`)
    return took
  },
  async slowCallback(server) {
    const target = await sink()
    const directory = folder()
    const client = await RuntimeClient.connect(server.url)
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
    await client.close()
    target.stop()
    rmSync(directory, { recursive: true })
    return end.uploaded
  },
  async large(server) {
    const target = await sink()
    const directory = folder()
    mkdirSync(join(directory, 'out'))
    const client = await RuntimeClient.connect(server.url)
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
    return grown / 1e6
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
    return grown / 1e6
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
    return seen / 1e3 / took
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
    if (count !== 200) throw new Error(`${count} uploaded`)
    return took
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
    return grown / 1e6
  },
}

export const contenders = Object.fromEntries(
  Object.entries(works).map(([name, work]) => [
    name,
    async () => {
      const server = await serve()
      try {
        return { value: await work(server) }
      } finally {
        server.stop()
      }
    },
  ]),
)

export function print(medians) {
  table(
    Object.entries(medians).map(([name, { value }]) => {
      const [what, , , unit] = measures[name]
      return { name, what, value, unit: unit.trim() }
    }),
  )
}

export function figures(medians) {
  return Object.entries(measures).map(([name, [what, relation, limit, unit]]) => {
    return [what, medians[name].value, relation, limit, unit]
  })
}
