// Many jobs at once, by the API and by `sheepdog submit --jsonl`; and the fleet in memory.
import { afterEach, describe, expect, it } from 'vitest'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Fleet, type JobOptions, type JobRecord } from '../entries/fleet.js'
import { hasServer, newFolder } from './fleet-worker'

const program = join(__dirname, '../cli/sheepdog.js')

describe('a fleet in memory', () => {
  const fleets: Fleet[] = []
  const connect = async () => {
    const fleet = await Fleet.connect({ memory: true })
    fleets.push(fleet)
    return fleet
  }
  afterEach(async () => {
    for (const fleet of fleets.splice(0)) await fleet.close()
  })

  it('runs handlers without a server, and keeps their results, events and artifacts', async () => {
    const fleet = await connect()
    const folder = newFolder()
    await fleet.work({
      handlers: {
        async sum(job) {
          const { a, b } = job.data as { a: number; b: number }
          await job.emit({ type: 'note', text: 'adding' })
          writeFileSync(join(job.cwd, 'sum.txt'), `${a + b}`)
          await job.artifact('sum.txt')
          return a + b
        },
      },
    })
    const job = await fleet.submit({ handler: 'sum', data: { a: 1, b: 2 }, cwd: folder })
    expect(await job.result).toBe(3)
    const events: string[] = []
    for await (const event of job.events()) events.push(event.type)
    expect(events).toEqual(['note'])
    await job.download('sum.txt', join(folder, 'copy.txt'))
    expect((await job.artifacts()).map(({ path, bytes }) => [path, bytes])).toEqual([['sum.txt', 1]])
    const records: JobRecord[] = []
    for await (const record of fleet.jobs()) records.push(record)
    expect(records).toMatchObject([{ id: job.id, state: 'done', attempt: 1 }])
  })

  it.each([0, -1, Infinity])('takes %d as the time limit of git', async (idleTimeoutMs) => {
    const fleet = await connect()
    const worker = await fleet.work({ git: { idleTimeoutMs } })
    await worker.close()
  })

  it('tries a job again, and tells why it failed', async () => {
    const fleet = await connect()
    await fleet.work({
      handlers: {
        bad: () => Promise.reject(Object.assign(new Error('no'), { code: 'E_NO' })),
      },
    })
    const job = await fleet.submit({ handler: 'bad', attempts: 1 })
    await expect(job.result).rejects.toMatchObject({ code: 'E_NO', jobId: job.id })
    expect((await job.record()).state).toBe('failed')
  })

  it('is its own: another one has other jobs', async () => {
    const [one, other] = [await connect(), await connect()]
    await one.submit({ handler: 'h', id: 'a' })
    await expect(other.job('a')).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
  })

  it('answers each of many jobs, and a refused one fails no other', async () => {
    const fleet = await connect()
    await fleet.submit({ handler: 'h', id: 'known' })
    const jobs = [
      { handler: 'h', id: 'known' },
      { handler: 'h', priority: 10 },
      { handler: 'h', id: 'x'.repeat(201) },
      { handler: 'h', id: 'new' },
      { handler: 'h' },
      { provider: 'codex', prompt: 'hi', sandbox: { network: { hosts: ['*.com'] } } },
    ] as JobOptions[]
    const answers = await fleet.submitMany(jobs)
    expect(answers.map(({ id, known, error }) => [id.slice(0, 5), known, error?.code])).toEqual([
      ['known', true, undefined],
      ['', undefined, 'INVALID_OPTION'],
      ['xxxxx', undefined, 'INVALID_OPTION'],
      ['new', false, undefined],
      [expect.stringMatching(/^0/), false, undefined],
      ['', undefined, 'INVALID_OPTION'],
    ])
    const ids = ['known', undefined, undefined, 'new', answers[4]!.id, undefined]
    expect(answers.map(({ job }) => job?.id)).toEqual(ids)
    expect(await fleet.submitMany([])).toEqual([])
    await expect(fleet.submitMany('a' as never)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })
})

describe.runIf(hasServer)('sheepdog submit --jsonl', () => {
  it('submits a job for each line, and reports the lines that it refuses', async () => {
    const folder = newFolder()
    const [dir, file] = [join(folder, 'fleet'), join(folder, 'jobs.jsonl')]
    const lines = Array.from({ length: 50 }, (_, n) => JSON.stringify({ handler: 'h', id: `job-${n}` }))
    lines.splice(3, 0, '', '{"handler":', '{"handler":"h","priority":77}', '[]')
    writeFileSync(file, lines.join('\n'))
    const fleet = await Fleet.connect({ dir })
    const args = [program, 'submit', '--jsonl', file, '--queue', 'bulk', '--dir', dir]
    const submitted = spawnSync(process.execPath, args, { encoding: 'utf8' })
    expect(submitted.status).toBe(1)
    expect(submitted.stdout.trim().split('\n')).toEqual(Array.from({ length: 50 }, (_, n) => `job-${n}`))
    expect(submitted.stderr).toMatch(/line 5: invalid JSON/)
    expect(submitted.stderr).toMatch(/line 6: INVALID_OPTION: priority/)
    expect(submitted.stderr).toMatch(/line 7: expected an object/)
    const { queues } = await fleet.status()
    await fleet.close()
    expect(queues).toMatchObject({ bulk: { queued: 50 } })
  })
})
