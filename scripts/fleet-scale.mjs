// `node scripts/fleet-scale.mjs [--seconds N]`: what one stream of a server takes, and what eight take beside each other, with every
// message on disk before it is acknowledged. The layout of docs/internals/fleet.md, on this machine.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { findServer } from './nats-server.mjs'
import { fail } from './step.mjs'

const { values } = parseArgs({ options: { seconds: { type: 'string', default: '4' } } })
const seconds = Number(values.seconds)
/** Messages without an answer, over all streams: the same load for both layouts. */
const inFlight = 64
const payload = 'x'.repeat(1024)

const { server, problem } = findServer()
if (!server) fail(problem)
const folder = mkdtempSync(join(tmpdir(), 'fleet-scale-'))
const config = join(folder, 'server.conf')
writeFileSync(
  config,
  `listen: "127.0.0.1:-1"\njetstream { store_dir: "${folder}/store", sync_interval: always }\nports_file_dir: "${folder}"\n`,
)
const child = spawn(server, ['-c', config], { stdio: ['ignore', 'ignore', 'pipe'] })
const port = await new Promise((resolve) => {
  let seen = ''
  child.stderr.on('data', (text) => {
    seen += text
    const [, found] = /client connections on 127\.0\.0\.1:(\d+)/.exec(seen) ?? []
    if (found && seen.includes('Server is ready')) resolve(Number(found))
  })
})

/** The few words of the protocol that are needed: publish with an answer. */
async function open(inbox) {
  const socket = connect(port, '127.0.0.1').setNoDelay()
  await once(socket, 'connect')
  const waiting = []
  let rest = ''
  socket.on('data', (chunk) => {
    rest += chunk
    for (;;) {
      const end = rest.indexOf('\r\n')
      if (end < 0) return
      const line = rest.slice(0, end)
      if (!line.startsWith('MSG ')) {
        if (line === 'PING') socket.write('PONG\r\n')
        rest = rest.slice(end + 2)
        continue
      }
      const [, , , length] = line.split(' ')
      if (rest.length < end + 4 + Number(length)) return
      const answer = JSON.parse(rest.slice(end + 2, end + 2 + Number(length)))
      rest = rest.slice(end + 4 + Number(length))
      waiting.shift()(answer)
    }
  })
  socket.write(`CONNECT {"verbose":false}\r\nSUB ${inbox} 1\r\n`)
  return {
    ask: (subject, text) =>
      new Promise((resolve) => {
        waiting.push(resolve)
        socket.write(`PUB ${subject} ${inbox} ${text.length}\r\n${text}\r\n`)
      }),
    close: () => socket.destroy(),
  }
}

/** Acknowledged messages a second, over so many streams. A connection a stream: answers come in order. */
async function measure(streams) {
  const counts = await Promise.all(
    Array.from({ length: streams }, async (_, index) => {
      const { ask, close } = await open(`answers${streams}-${index}`)
      const name = `S${streams}_${index}`
      const made = await ask(
        `$JS.API.STREAM.CREATE.${name}`,
        JSON.stringify({
          name,
          subjects: [`${name}.>`],
          storage: 'file',
          retention: 'limits',
          num_replicas: 1,
        }),
      )
      if (made.error && made.error.err_code !== 10058) fail(made.error.description)
      const end = performance.now() + seconds * 1000
      let count = 0
      await Promise.all(
        Array.from({ length: inFlight / streams }, async () => {
          while (performance.now() < end) {
            const { error } = await ask(`${name}.job`, payload)
            if (error) fail(error.description)
            count++
          }
        }),
      )
      close()
      return count
    }),
  )
  return Math.round(counts.reduce((sum, count) => sum + count, 0) / seconds)
}

const rounds = []
for (let round = 0; round < 3; round++) rounds.push({ one: await measure(1), eight: await measure(8) })
child.kill('SIGTERM')
await once(child, 'exit')
rmSync(folder, { recursive: true, force: true })
const median = (numbers) => numbers.sort((left, right) => left - right)[1]
const one = median(rounds.map((round) => round.one))
const eight = median(rounds.map((round) => round.eight))
console.log(
  JSON.stringify({ rounds, oneStreamPerSecond: one, eightStreamsPerSecond: eight, ratio: eight / one }),
)
