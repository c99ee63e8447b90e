// The server's configuration in examples/fleet: what each of its users may do.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { Fleet } from '../entries/fleet.js'
import { gate, hasServer, newFolder } from './fleet-worker'
import { freePorts, serve } from './nats-server'

const examples = join(__dirname, '../examples/fleet')

/** The example as it stands, but for its addresses, certificates and companions. */
async function exampleServer(): Promise<number> {
  const [port] = await freePorts(1)
  const folder = newFolder()
  const example = readFileSync(join(examples, 'nats-server.conf'), 'utf8')
  const text = example
    .replaceAll('0.0.0.0:4222', `127.0.0.1:${port}`)
    .replace('/var/lib/nats', join(folder, 'store'))
    .replace('100GB', '1GB')
    .replace(/^tls \{.*?^\}/ms, '')
    .replace(/^cluster \{.*?^\}/ms, '')
  await serve(text, port!, {
    NAME: 'n1',
    STORE_KEY: 'k-secret',
    ADMIN_PASSWORD: 'a-secret',
    WORKER_PASSWORD: 'w-secret',
    SUBMITTER_PASSWORD: 's-secret',
    OPERATOR_PASSWORD: 'o-secret',
  })
  return port!
}

/** A user who speaks to the server without Sheepdog. */
async function rawUser(port: number, user: string) {
  const socket = connect(port, '127.0.0.1')
  let said = ''
  socket.setEncoding('utf8').on('data', (chunk) => (said += chunk))
  await once(socket, 'data')
  const login = JSON.stringify({ user, pass: `${user[0]}-secret`, verbose: false, pedantic: false })
  /** Output of the server for these protocol lines, up to its answer to a ping. */
  const say = async (words: string) => {
    said = ''
    socket.write(`${words}PING\r\n`)
    await vi.waitFor(() => expect(said).toContain('PONG'), { timeout: 10_000, interval: 5 })
    return said
  }
  await say(`CONNECT ${login}\r\n`)
  return {
    /** Those of the subjects that it may publish to after all. */
    async refused(subjects: string[]) {
      const found: string[] = []
      for (const subject of subjects) {
        const answer = await say(`PUB ${subject} _INBOX.${user}.x 2\r\n{}\r\n`)
        if (!answer.includes('Permissions Violation for Publish')) found.push(subject)
      }
      return found
    },
    /** Those of the subjects that it may listen to after all. */
    async unheard(subjects: string[]) {
      const found: string[] = []
      for (const [n, subject] of subjects.entries()) {
        const answer = await say(`SUB ${subject} ${n + 1}\r\n`)
        if (!answer.includes('Permissions Violation for Subscription')) found.push(subject)
      }
      return found
    },
    say,
  }
}

describe.runIf(hasServer)('the users of the example', () => {
  it('do what their part is, and no more', async () => {
    const port = await exampleServer()
    const as = (user: string, options = {}) =>
      Fleet.connect({ servers: `nats://${user}:${user[0]}-secret@127.0.0.1:${port}`, ...options })
    const admin = await as('admin')
    const [workers, submitters, operators] = [await as('worker'), await as('submitter'), await as('operator')]
    const handlers = {
      async sum(job: any) {
        await job.emit({ type: 'step' })
        return job.data.reduce((sum: number, n: number) => sum + n, 0)
      },
      big: () => 'x'.repeat(400_000),
      bad() {
        throw new Error('no')
      },
      wait: (job: any) => new Promise((_, reject) => job.signal.addEventListener('abort', reject)),
    }
    const worker = await workers.work({ handlers })
    const sum = await submitters.submit({ handler: 'sum', data: [1, 2], key: 'k' })
    expect(await sum.result).toBe(3)
    const types: string[] = []
    for await (const event of sum.events()) types.push(event.type)
    expect(types).toEqual(['step'])
    const long = await submitters.submit({ handler: 'sum', data: Array.from({ length: 300_000 }, () => 1) })
    expect(await long.result).toBe(300_000)
    expect(await (await submitters.submit({ handler: 'big' })).result).toHaveLength(400_000)
    const bad = await submitters.submit({ handler: 'bad', attempts: 1 })
    await expect(bad.result).rejects.toThrow('no')
    await expect(bad.retry()).rejects.toMatchObject({ code: 'FLEET_UNAUTHORIZED' })
    await (await operators.job(bad.id)).retry()
    await expect((await submitters.job(bad.id)).result).rejects.toThrow('no')
    expect(await (await operators.job(bad.id)).record()).toMatchObject({ state: 'failed', attempt: 2 })
    const running = await submitters.submit({ handler: 'wait' })
    await vi.waitFor(async () => expect((await running.record()).state).toBe('running'), { timeout: 30_000 })
    await expect(running.cancel()).rejects.toMatchObject({ code: 'FLEET_UNAUTHORIZED' })
    expect(await (await operators.job(running.id)).cancel()).toMatchObject({ state: 'cancelled' })
    expect((await submitters.status()).workers.map(({ name }) => name)).toEqual([worker.name])
    // A worker can't give itself work.
    await expect(workers.submit({ handler: 'sum', data: [1] })).rejects.toMatchObject({
      code: 'FLEET_UNAUTHORIZED',
    })
    await expect(submitters.prune({ olderThanMs: 0 })).rejects.toMatchObject({ code: 'FLEET_UNAUTHORIZED' })
    expect(await operators.prune({ olderThanMs: 0 })).toMatchObject({ jobs: 5 })
    await worker.close()
    for (const fleet of [workers, submitters, operators, admin]) await fleet.close()
  })

  it('let a worker take up jobs that wait for their key', async () => {
    const port = await exampleServer()
    const as = (user: string) =>
      Fleet.connect({ servers: `nats://${user}:${user[0]}-secret@127.0.0.1:${port}` })
    const [admin, workers, submitters] = [await as('admin'), await as('worker'), await as('submitter')]
    const { held, go } = gate()
    const handlers = { first: () => held, next: () => 'done' }
    await workers.work({ handlers })
    const first = await submitters.submit({ handler: 'first', key: 'k' })
    await vi.waitFor(async () => expect((await first.record()).state).toBe('running'), { timeout: 30_000 })
    const begun = Date.now()
    const waiting = await submitters.submitMany(
      Array.from({ length: 5 }, () => ({ handler: 'next', key: 'k' })),
    )
    // It is behind them, so they were given back when it is done.
    await (
      await submitters.submit({ handler: 'next' })
    ).result
    go()
    for (const { id } of waiting) await (await submitters.job(id)).result
    // By themselves they come back after 5 s.
    expect(Date.now() - begun).toBeLessThan(4800)
    for (const fleet of [workers, submitters, admin]) await fleet.close()
  })

  it('stand in the way of a hostile submitter and of a hostile worker', async () => {
    const port = await exampleServer()
    const as = (user: string) =>
      Fleet.connect({ servers: `nats://${user}:${user[0]}-secret@127.0.0.1:${port}` })
    const [admin, workers, submitters] = [await as('admin'), await as('worker'), await as('submitter')]
    const { held, go } = gate()
    const worker = await workers.work({ handlers: { wait: () => held.then(() => 'right') } })
    const victim = await submitters.submit({ handler: 'wait', id: 'victim', env: { TOKEN: 'secret' } })
    await vi.waitFor(async () => expect((await victim.record()).state).toBe('running'), { timeout: 30_000 })
    const nobody = [
      '$JS.API.STREAM.DELETE.SD_JOBS',
      '$JS.API.STREAM.UPDATE.SD_JOBS',
      '$JS.API.STREAM.CREATE.MINE',
      '$JS.API.STREAM.MSG.DELETE.SD_LOG',
      '$JS.API.STREAM.SNAPSHOT.SD_JOBS',
      '$JS.API.CONSUMER.DELETE.SD_JOBS.w_default_4',
      '$JS.API.CONSUMER.LIST.SD_LOG',
      // A consumer could deliver a log anywhere, such as into the records.
      '$JS.API.CONSUMER.CREATE.SD_LOG.mine',
      ...['SD_JOBS', 'SD_LOG', 'SD_DEAD', 'KV_SD_RUN', 'KV_SD_LEASE', 'OBJ_SD_ART'].map(
        (stream) => `$JS.API.STREAM.PURGE.${stream}`,
      ),
    ]
    const submitter = await rawUser(port, 'submitter')
    expect(
      await submitter.refused([
        ...nobody,
        // Runs a job as a worker, acknowledges one away, delays one.
        '$JS.API.CONSUMER.MSG.NEXT.SD_JOBS.w_default_4',
        '$JS.API.CONSUMER.CREATE.SD_JOBS.mine.sd.job.default.4.*',
        '$JS.ACK.SD_JOBS.w_default_4.1.1.1.1.0',
        // Forges a result, an artifact, a log, a lease.
        '$KV.SD_RUN.victim',
        '$O.SD_ART.M.dmljdGlt',
        '$O.SD_ART.C.number',
        'sd.log.victim.1',
        'sd.dead.default.victim',
        '$KV.SD_LEASE.worker.me',
        // The same by the name that it knows.
        ...nobody.map((subject) => subject.replace('$JS.API', 'sd.api')),
        'sd.api.CONSUMER.MSG.NEXT.SD_JOBS.w_default_4',
        'sd.api.CONSUMER.CREATE.SD_JOBS.mine.sd.job.default.4.*',
        'sd.api.STREAM.MSG.GET.SD_DEAD',
      ]),
    ).toEqual([])
    expect(await submitter.unheard(['_INBOX.>', '_INBOX.worker.>', '>', 'sd.job.>', '$JS.>'])).toEqual([])
    const hostile = await rawUser(port, 'worker')
    const asWorker = [
      ...nobody,
      '$JS.API.STREAM.MSG.GET.SD_JOBS',
      '$JS.API.DIRECT.GET.SD_JOBS',
      '$JS.API.STREAM.MSG.GET.SD_DEAD',
    ]
    expect(
      await hostile.refused([
        'sd.job.default.4.mine',
        ...asWorker,
        ...asWorker.map((subject) => subject.replace('$JS.API', 'sd.api')),
      ]),
    ).toEqual([])
    expect(await hostile.unheard(['_INBOX.>', '_INBOX.submitter.>', '>', 'sd.job.>'])).toEqual([])
    // An answer of the server goes where it is asked to, also where the one who asks may not write.
    const asked = JSON.stringify({ last_by_subj: 'sd.job.default.4.victim' })
    await submitter.say(`PUB sd.api.DIRECT.GET.SD_JOBS $KV.SD_RUN.victim ${asked.length}\r\n${asked}\r\n`)
    expect(await victim.record()).toMatchObject({ state: 'running' })
    // A worker may write what is answered then: a job of its own, and a question that removes all logs.
    const mine = { id: 'mine', queue: 'default', priority: 4, handler: 'wait', attempts: 1 }
    const store = async (place: string, text: string) =>
      hostile.say(`PUB $KV.SD_LEASE.hold.${place} ${text.length}\r\n${text}\r\n`)
    await store('job', JSON.stringify(mine))
    await store('all', '{}')
    for (const [place, subject] of [
      ['job', 'sd.job.default.4.mine'],
      ['all', 'sd.api.STREAM.PURGE.SD_JOBS'],
      ['all', '$JS.API.STREAM.PURGE.SD_JOBS'],
    ]) {
      const which = JSON.stringify({ last_by_subj: `$KV.SD_LEASE.hold.${place}` })
      for (const api of ['sd.api', '$JS.API'])
        await hostile.say(`PUB ${api}.DIRECT.GET.KV_SD_LEASE ${subject} ${which.length}\r\n${which}\r\n`)
    }
    // A message of another id, and one of the same id in another queue.
    const forged = { ...mine, id: 'victim', handler: 'forge' }
    for (const [subject, spec] of [
      ['sd.job.default.4.other', forged],
      ['sd.job.default.7.victim', { ...forged, priority: 7 }],
    ] as const) {
      const text = JSON.stringify(spec)
      await submitter.say(`PUB ${subject} ${text.length}\r\n${text}\r\n`)
    }
    const other = await workers.work({ handlers: { forge: () => 'forged' } })
    expect(await (await submitters.submit({ handler: 'forge', priority: 0 })).result).toBe('forged')
    await expect(admin.job('mine')).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
    expect((await admin.status()).storage.SD_JOBS!.messages).toBeGreaterThan(0)
    go()
    expect(await victim.result).toBe('right')
    await other.close()
    await worker.close()
    for (const fleet of [workers, submitters, admin]) await fleet.close()
  })
})
