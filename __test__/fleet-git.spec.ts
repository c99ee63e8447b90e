// Jobs that work in a repository.
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Fleet, type JobHandler } from '../entries/fleet.js'
import { race, type HarnessOptions } from '..'
import { firstEvent, hasServer, newFolder, newQueue, workerProcess } from './fleet-worker'
import { done, failure, player, said, session, tool } from './played-agent'
import { checkouts, worker } from './repository'

function git(cwd: string, ...args: string[]): string {
  const identity = ['-c', 'user.name=t', '-c', 'user.email=t@t', '-c', 'init.defaultBranch=main']
  return execFileSync('git', [...identity, ...args], { cwd, encoding: 'utf8' }).trim()
}

/** A repository with one commit. */
function newRepository(): string {
  const folder = newFolder()
  git(folder, 'init', '-q')
  writeFileSync(join(folder, 'a.txt'), 'one')
  git(folder, 'add', '.')
  git(folder, 'commit', '-qm', 'one')
  return folder
}

describe.runIf(hasServer)('a job with a repository', () => {
  const dir = hasServer ? newFolder() : ''
  let fleet: Fleet
  beforeAll(async () => {
    fleet = await Fleet.connect({ dir, leaseMs: 2000 })
  })
  afterAll(() => fleet?.close())

  async function work(handlers: Record<string, JobHandler>) {
    const queue = newQueue()
    const dir = newFolder()
    const worker = await fleet.work({ queues: [queue], handlers, git: { dir } })
    return { queue, worker, left: () => readdirSync(join(dir, 'checkouts')) }
  }

  it('works in a checkout of its own, keeps what it leaves, and the checkout goes', async () => {
    const { queue, worker, left } = await work({
      async change(job) {
        expect(readFileSync(join(job.cwd, 'a.txt'), 'utf8')).toBe('one')
        writeFileSync(join(job.cwd, 'a.txt'), 'two')
        git(job.cwd, 'commit', '-qam', 'two')
        writeFileSync(join(job.cwd, 'change.patch'), git(job.cwd, 'format-patch', '--stdout', 'origin/main'))
        return job.cwd
      },
    })
    const url = newRepository()
    const job = await fleet.submit({ handler: 'change', queue, git: { url }, artifacts: ['*.patch'] })
    const cwd = (await job.result) as unknown as string
    const event = await firstEvent(fleet, job.id, 'checkout')
    expect(event).toMatchObject({ path: cwd, commit: git(url, 'rev-parse', 'HEAD'), attempt: 1 })
    const patch = join(newFolder(), 'patch')
    await job.download('change.patch', patch)
    expect(readFileSync(patch, 'utf8')).toContain('+two')
    await worker.close()
    expect(existsSync(cwd)).toBe(false)
    expect(left()).toEqual([])
    expect(git(url, 'log', '--format=%s')).toBe('one')
  })

  it('can hold a race of agents, whose patch comes home', async () => {
    const agents = [worker('echo wrong > a.txt'), worker('echo right > a.txt; git commit -qam right')]
    const { queue, worker: works } = await work({
      async fix(job) {
        const verify = ['grep', 'right', 'a.txt'] as const
        const { winner, entries } = await race('Fix it.', {
          cwd: job.cwd,
          agents,
          verify,
          signal: job.signal,
        })
        writeFileSync(join(job.cwd, 'fix.patch'), await winner!.changes!.patch())
        return entries.map(({ state }) => state)
      },
    })
    const url = newRepository()
    const job = await fleet.submit({ handler: 'fix', queue, git: { url }, artifacts: ['fix.patch'] })
    expect(((await job.result) as unknown as string[])[1]).toBe('passed')
    const patch = join(newFolder(), 'fix.patch')
    await job.download('fix.patch', patch)
    await works.close()
    expect(readFileSync(join(url, 'a.txt'), 'utf8')).toBe('one')
    git(url, 'apply', patch)
    expect(readFileSync(join(url, 'a.txt'), 'utf8')).toBe('right\n')
    expect(checkouts()).toEqual([])
  })

  it('can be an entry of a race: the first whose work passes wins, and the others are cancelled', async () => {
    const scripts: Record<string, string> = {
      endless: 'sleep 1000',
      wrong: 'echo wrong > a.txt',
      right: 'echo right > a.txt',
    }
    const started: string[] = []
    const {
      queue,
      worker: works,
      left,
    } = await work({
      async fix(job) {
        started.push(job.data)
        const agents = [worker(scripts[job.data]!)]
        const verify = ['grep', 'right', 'a.txt'] as const
        const { winner } = await race('Fix it.', { cwd: job.cwd, agents, verify, signal: job.signal })
        writeFileSync(join(job.cwd, 'fix.patch'), await winner!.changes!.patch())
      },
    })
    const url = newRepository()
    const submit = (data: string) =>
      fleet.submit({
        handler: 'fix',
        data,
        queue,
        attempts: 1,
        git: { url },
        artifacts: ['fix.patch'],
      })
    const jobs = [await submit('endless'), await submit('wrong')]
    await expect.poll(() => started.length).toBe(2)
    jobs.push(await submit('right'))
    const winner = await Promise.any(jobs.map(async (job) => (await job.result, job)))
    await Promise.allSettled(jobs.map((job) => job.cancel()))
    await works.close()
    const patch = join(newFolder(), 'fix.patch')
    await winner.download('fix.patch', patch)
    git(url, 'apply', patch)
    expect(readFileSync(join(url, 'a.txt'), 'utf8')).toBe('right\n')
    const states = await Promise.all(jobs.map(async (job) => (await job.record()).state))
    expect(states).toEqual(['cancelled', 'failed', 'done'])
    expect([left(), checkouts()]).toEqual([[], []])
  })

  it('keeps the files of a job that failed when it was asked to, and says where', async () => {
    const { queue, worker } = await work({
      bad(job) {
        writeFileSync(join(job.cwd, 'half'), `${job.attempt}`)
        throw new Error('no')
      },
    })
    const source = { url: newRepository(), ref: 'main' }
    const options = { handler: 'bad', queue, attempts: 2 }
    const plain = await failure((await fleet.submit({ ...options, git: source })).result)
    expect(plain).not.toHaveProperty('checkout')
    const job = await fleet.submit({ ...options, git: { ...source, keepOnFailure: true } })
    const { checkout } = (await failure(job.result)) as unknown as { checkout: string }
    expect(readFileSync(join(checkout, 'half'), 'utf8')).toBe('2')
    await worker.close()
    expect(existsSync(checkout)).toBe(true)
  })

  it('ends at once when the ref is not there, and after its attempts when the remote is away', async () => {
    const { queue, worker } = await work({ never: () => 'ran' })
    const url = newRepository()
    const missing = await fleet.submit({ handler: 'never', queue, git: { url, ref: 'nowhere' } })
    expect(await failure(missing.result)).toMatchObject({
      code: 'JOB_CHECKOUT_FAILED',
      kind: 'missing_ref',
      url,
    })
    expect(await missing.record()).toMatchObject({ state: 'failed', attempt: 1 })
    const away = await fleet.submit({ handler: 'never', queue, attempts: 2, git: { url: `${url}/none` } })
    expect(await failure(away.result)).toMatchObject({ code: 'JOB_CHECKOUT_FAILED', kind: 'unreachable' })
    expect(await away.record()).toMatchObject({ state: 'failed', attempt: 2 })
    await worker.close()
  })

  it('tells nobody the login of an address', async () => {
    const { queue, worker } = await work({ never: () => 'ran' })
    const url = 'http://me:hunter2@127.0.0.1:1/a.git'
    const job = await fleet.submit({ handler: 'never', queue, attempts: 1, git: { url } })
    const error = await failure(job.result)
    expect(error).toMatchObject({ code: 'JOB_CHECKOUT_FAILED', url: 'http://127.0.0.1:1/a.git' })
    expect(JSON.stringify([{ ...error }, error.message, await job.record()])).not.toContain('hunter2')
    await worker.close()
  })

  it('goes on in the files of an attempt that was lost after a tool had run', async () => {
    const queue = newQueue()
    const place = { dir: newFolder() }
    const harness = (steps: object[]): Partial<HarnessOptions> => ({
      provider: 'codex',
      binary: ['node', player, JSON.stringify(steps)],
    })
    const hangs = harness([session, tool, { hang: true }])
    const first = await workerProcess({ dir }, { queues: [queue], git: place, harness: hangs })
    const job = await fleet.submit({
      provider: 'codex',
      prompt: 'Do it.',
      queue,
      git: { url: newRepository() },
    })
    const { path } = await firstEvent(fleet, job.id, 'checkout')
    await firstEvent(fleet, job.id, 'tool_start')
    writeFileSync(join(path, 'half'), 'done by the first')
    first.kill('SIGKILL')
    const ends = harness([session, { tell: 'args' }, done])
    const worker = await fleet.work({ queues: [queue], git: place, harness: ends })
    await job.result
    const paths: string[] = []
    for await (const event of job.events())
      if (event.type === 'checkout') paths.push((event as unknown as { path: string }).path)
    expect(paths).toEqual([path, path])
    await worker.close()
    expect(existsSync(path)).toBe(false)
  })

  it('that names neither a repository nor a folder works where its worker does', async () => {
    const queue = newQueue()
    const cwd = realpathSync(newFolder())
    const script = [session, said('Done.'), done]
      .map(({ line }) => `echo '${JSON.stringify(line)}'`)
      .join(';')
    const binary = ['sh', '-c', `pwd > where.txt; ${script}`]
    const harness: Partial<HarnessOptions> = { provider: 'codex', binary, cwd }
    const worker = await fleet.work({ queues: [queue], harness })
    const job = await fleet.submit({ provider: 'codex', prompt: 'x', queue, artifacts: ['where.txt'] })
    await job.result
    const where = join(newFolder(), 'where')
    await job.download('where.txt', where)
    expect(readFileSync(where, 'utf8').trim()).toBe(cwd)
    await worker.close()
  })

  it('says what is wrong with an address before anything is stored', async () => {
    const submit = (source: unknown) => failure(fleet.submit({ handler: 'x', git: source as never }))
    for (const [source, message] of [
      [{ url: 'ext::sh -c id' }, 'git.url: '],
      [{ url: '--upload-pack=id' }, 'git.url: '],
      [{ url: 'https://host/a', ref: '-x' }, 'git.ref: '],
      [{}, 'git.url: '],
      [{ url: 7 }, 'git.url: '],
      ['https://host/a', 'git: '],
      [{ url: 'https://host/a', branch: 'x' }, 'git.branch: '],
    ] as const) {
      const error = await submit(source)
      expect([error.code, error.message]).toEqual(['INVALID_OPTION', expect.stringContaining(message)])
    }
    const both = await failure(fleet.submit({ handler: 'x', cwd: '/', git: { url: '/srv/a' } }))
    expect(both.message).toMatch(/^git: /)
  })
})
