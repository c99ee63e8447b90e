// A turn in a checkout of its own: what it gets, what is read of it, and the user's working tree, which nobody touches.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { Changes, Harness, listWorktrees, reapWorktrees, run, sandboxSupport } from '..'
import { sheepdog } from './cli-command'
import { isAlive } from './alive'
import { failure } from './played-agent'
import { checkouts, git, plainFolder, repository, sheepdogRefs, stateOf, worker } from './repository'
import { missingFields } from './promised-fields'

/** An agent of sessions that does what the prompt's first word says (fixtures/acp/plays.mjs). */
function talker(cwd: string, start = ''): Harness {
  const agent = join(__dirname, '..', 'fixtures', 'acp', 'agent.mjs')
  return new Harness({ provider: 'gemini', binary: ['node', agent, '--start', start], cwd })
}

const edits = 'echo four >> kept.txt; rm untracked.txt; printf "new\\n" > added.txt'

describe('a turn with `worktree`', () => {
  it('changes nothing of the user until the changes are applied', async () => {
    const top = repository()
    const before = stateOf(top)
    const harness = new Harness({ ...worker(edits), cwd: top })
    const { changes, text, warnings } = await harness.run('Work.', { worktree: true })
    expect(text).toBe('Done.')
    expect(warnings).toEqual([])
    expect(stateOf(top)).toEqual(before)
    expect(changes).toBeInstanceOf(Changes)
    expect(changes!.files).toEqual([
      { path: 'added.txt', status: 'added', insertions: 1, deletions: 0 },
      { path: 'kept.txt', status: 'modified', insertions: 1, deletions: 0 },
      { path: 'untracked.txt', status: 'deleted', insertions: 0, deletions: 1 },
    ])
    expect(sheepdogRefs(top)).toEqual([changes!.ref])
    expect(git(top, 'rev-parse', changes!.ref!)).toBe(changes!.commit)
    expect(await changes!.patch()).toContain('+four')
    expect(checkouts()).toEqual([])
    await changes!.apply()
    expect(readFileSync(join(top, 'kept.txt'), 'utf8')).toBe('one\ntwo\nthree\nuncommitted\nfour\n')
    expect(existsSync(join(top, 'untracked.txt'))).toBe(false)
    expect(stateOf(top).index).toBe(before.index)
    await changes!.discard()
    expect(sheepdogRefs(top)).toEqual([])
  })

  it('begins with the files as they are, without the ignored ones', async () => {
    const top = repository()
    const look = 'cat kept.txt untracked.txt; ls secret.env; git rev-parse --show-toplevel; pwd'
    const harness = new Harness({ ...worker(`{ ${look}; } > ../told 2>&1; mv ../told told`), cwd: top })
    const { changes } = await harness.run('Look.', { worktree: true })
    const told = git(top, 'show', `${changes!.commit}:told`).split('\n')
    expect(told.slice(0, 5)).toEqual(['one', 'two', 'three', 'uncommitted', 'untracked'])
    expect(told[5]).toMatch(/No such file/)
    expect(told[6]).toBe(told[7])
    expect(told[6]).not.toBe(top)
    await changes!.discard()
  })

  it('brings the commits of the agent home', async () => {
    const top = repository()
    const commit = 'echo x > by-agent; git add by-agent; git commit -qm "By the agent"; echo y > rest'
    const { changes } = await new Harness({ ...worker(commit), cwd: top }).run('Commit.', { worktree: true })
    expect(git(top, 'log', '--format=%s', `${changes!.base}..${changes!.commit}`).split('\n')).toEqual([
      'Files as an agent left them',
      'By the agent',
    ])
    await changes!.discard()
  })

  it('cannot reach the repository by git, whatever the host inherits', async () => {
    const top = repository()
    const before = stateOf(top)
    const config = readFileSync(join(top, '.git/config'), 'utf8')
    const attack =
      'git config core.editor evil; git update-ref refs/heads/evil HEAD; echo evil > .git/hooks/post-checkout; git stash -u -q'
    process.env.GIT_DIR = join(top, '.git')
    try {
      const { changes } = await new Harness({ ...worker(attack), cwd: top }).run('x', { worktree: true })
      expect(changes!.files).toEqual([])
    } finally {
      delete process.env.GIT_DIR
    }
    expect(stateOf(top)).toEqual(before)
    expect(readFileSync(join(top, '.git/config'), 'utf8')).toBe(config)
    expect(existsSync(join(top, '.git/hooks/post-checkout'))).toBe(false)
    expect(sheepdogRefs(top)).toEqual([])
  })

  it('applies all or nothing', async () => {
    const top = repository()
    const { changes } = await new Harness({ ...worker(edits), cwd: top }).run('Work.', { worktree: true })
    writeFileSync(join(top, 'kept.txt'), 'one\ntwo\nthree\nanother\n')
    const before = stateOf(top)
    const conflict = await failure(changes!.apply())
    expect(conflict).toMatchObject({ code: 'CHANGES_CONFLICT', files: ['kept.txt'] })
    expect(missingFields(conflict)).toEqual([])
    expect(stateOf(top)).toEqual(before)
    await changes!.discard()
  })

  it('has changes when it failed too, and is kept when that is wanted', async () => {
    const top = repository()
    const harness = new Harness({ ...worker('echo x > left; exit 3'), cwd: top })
    const worktree = { keep: 'failure' } as const
    const { result } = await failure(harness.run('Fail.', { worktree }))
    expect(result.changes.files).toMatchObject([{ path: 'left', status: 'added' }])
    expect(existsSync(join(result.changes.worktree, 'left'))).toBe(true)
    expect(await listWorktrees()).toMatchObject([{ state: 'kept', repository: top }])
    expect((await sheepdog(['ps'])).stdout).toContain(`kept  ${process.pid}  checkout of ${top}`)
    await result.changes.discard()
    expect(existsSync(result.changes.worktree)).toBe(false)
    expect(await listWorktrees()).toEqual([])
    expect(sheepdogRefs(top)).toEqual([])
  })
})

describe('a session', () => {
  it('works in a checkout of its own, whose changes are told between prompts and at the end', async () => {
    const top = repository()
    const before = stateOf(top)
    const session = await talker(top).open({ worktree: true })
    await session.prompt('writes one')
    const first = await session.changes()
    expect(first.files.map(({ path, status }) => [path, status])).toEqual([['one', 'added']])
    await first.apply()
    expect(readFileSync(join(top, 'one'), 'utf8')).toBe('written')
    await first.discard()
    await session.prompt('writes two')
    await session.close()
    expect(checkouts()).toEqual([])
    const all = await session.changes()
    expect(all.files.map(({ path }) => path)).toEqual(['one', 'two'])
    expect([all.warnings, all.worktree]).toEqual([[], undefined])
    await all.apply()
    await all.discard()
    expect(sheepdogRefs(top)).toEqual([])
    const { status, ...after } = stateOf(top)
    expect({ ...after, status: before.status }).toEqual({ ...before, one: 'written', two: 'written' })
    expect(status).toContain('?? one\n?? two')
  })

  it('is kept where one of its prompts failed, and has changes when its agent died', async () => {
    const top = repository()
    const session = await talker(top).open({ worktree: { keep: 'failure' } })
    await session.prompt('writes one')
    expect(await failure(session.prompt('killed'))).toMatchObject({ code: 'AGENT_CRASHED' })
    await session.close()
    const changes = await session.changes()
    expect(changes.files.map(({ path }) => path)).toEqual(['one'])
    expect(readFileSync(join(changes.worktree!, 'one'), 'utf8')).toBe('written')
    await changes.discard()
    expect([checkouts(), sheepdogRefs(top)]).toEqual([[], []])
  })

  it('tells the changes in the folder itself, where it was asked to', async () => {
    const top = repository()
    await using session = await talker(top).open({ changes: true })
    await session.prompt('writes one')
    const changes = await session.changes()
    expect(changes.files.map(({ path }) => path)).toEqual(['one'])
    await changes.discard()
    await using other = await talker(top).open()
    expect(await failure(other.changes())).toMatchObject({ code: 'INVALID_OPTION' })
    await using outside = await talker(plainFolder()).open({ changes: true })
    expect(await failure(outside.changes())).toMatchObject({ code: 'INVALID_OPTION' })
  })

  it('that cannot be opened leaves nothing', async () => {
    const top = repository()
    const opening = talker(top, 'initialize-exit').open({ worktree: true })
    expect(await failure(opening)).toMatchObject({ code: 'AGENT_CRASHED' })
    const stop = new AbortController()
    const aborted = talker(top, 'initialize-silent').open({ worktree: true, signal: stop.signal })
    setTimeout(() => stop.abort(), 50)
    expect(await failure(aborted)).toMatchObject({ code: 'AGENT_ABORTED' })
    expect([checkouts(), sheepdogRefs(top)]).toEqual([[], []])
  })
})

it('a checkout is made when the turn has its slot, and no earlier', async () => {
  const top = repository()
  const go = join(plainFolder(), 'go')
  const script = `until [ -e ${go} ]; do sleep 0.05; done`
  const harness = new Harness({ ...worker(script), cwd: top, maxConcurrent: 1 })
  const turns = [1, 2, 3].map(() => harness.start('x', { worktree: true }))
  for await (const { type } of turns[0]!) if (type === 'session') break
  expect(checkouts().filter((name) => name.endsWith('.lock'))).toHaveLength(1)
  const last = turns.pop()!
  await last.abort()
  expect(await failure(last.result)).toMatchObject({ code: 'AGENT_ABORTED' })
  writeFileSync(go, '')
  const [first, second] = await Promise.all(turns.map(({ result }) => result))
  expect(second!.queuedMs).toBeGreaterThan(first!.queuedMs)
  expect([checkouts(), sheepdogRefs(top)]).toEqual([[], []])
})

describe('before the agent starts', () => {
  it('`include` and `setup` fill the checkout', async () => {
    const top = repository()
    const harness = new Harness({ ...worker('cat secret.env made > seen'), cwd: top })
    const { changes } = await harness.run('Look.', {
      worktree: { include: ['*.env'], setup: ['sh', '-c', 'echo made > made'] },
    })
    expect(git(top, 'show', `${changes!.commit}:seen`)).toBe('KEY=1\nmade')
    expect(changes!.files.map(({ path }) => path)).not.toContain('secret.env')
    await changes!.discard()
  })

  it('a setup that fails, or hangs until the turn is aborted, starts no agent and leaves nothing', async () => {
    const top = repository()
    const started = join(plainFolder(), 'started')
    const harness = new Harness({ ...worker(`touch ${started}`), cwd: top })
    const failed = harness.run('x', { worktree: { setup: ['sh', '-c', 'echo no such package >&2; exit 4'] } })
    expect(await failure(failed)).toMatchObject({
      code: 'WORKTREE_FAILED',
      step: 'setup',
      message: expect.stringMatching(/`error\.cause\.result`: no such package$/),
      cause: { result: { stderr: 'no such package\n' } },
    })
    const stop = new AbortController()
    const pid = join(plainFolder(), 'pid')
    const hung = harness.run('x', {
      signal: stop.signal,
      worktree: { setup: ['sh', '-c', `echo $$ > ${pid}; exec sleep 1000`] },
    })
    await expect
      .poll(() => existsSync(pid) && readFileSync(pid, 'utf8'), { timeout: 20_000 })
      .toMatch(/\d+\n/)
    stop.abort()
    expect(await failure(hung)).toMatchObject({ code: 'AGENT_ABORTED' })
    expect(isAlive(Number(readFileSync(pid, 'utf8')))).toBe(false)
    expect([existsSync(started), checkouts(), sheepdogRefs(top)]).toEqual([false, [], []])
  })

  it('what cannot work is refused', async () => {
    const harness = new Harness({ ...worker('true'), cwd: plainFolder() })
    const refused = { code: 'INVALID_OPTION' }
    const worktree = true
    expect(await failure(harness.run('x', { worktree }))).toMatchObject({
      ...refused,
      message: expect.stringContaining('is not in a git repository'),
    })
    expect(await failure(harness.run('x', { worktree, resume: 't-1' }))).toMatchObject(refused)
    expect(
      await failure(harness.run('x', { worktree: { base: 'nowhere' }, cwd: repository() })),
    ).toMatchObject(refused)
    expect(await failure(harness.run('x', { worktree: { bas: 'x' } as object }))).toMatchObject(refused)
    expect(await failure(harness.open({ worktree, resume: 's-1' }))).toMatchObject(refused)
    expect(await failure(talker(plainFolder()).open({ worktree }))).toMatchObject({
      ...refused,
      message: expect.stringContaining('is not in a git repository'),
    })
    const served = harness.serve({ input: process.stdin, output: process.stdout }, { worktree } as object)
    expect(await failure(served)).toMatchObject(refused)
    expect((await harness.run('x', { changes: true })).changes).toBeUndefined()
  })
})

it('events and abort of a turn that starts late are those of any turn', async () => {
  const top = repository()
  const turn = new Harness({ ...worker('true'), cwd: top }).start('x', { worktree: true })
  const types: string[] = []
  for await (const event of turn) types.push(event.type)
  expect(types).toContain('text')
  expect(types.at(-1)).toBe('end')
  expect((await turn.result).text).toBe('Done.')
  const other = new Harness({ ...worker('sleep 1000'), cwd: top }).start('x', { worktree: true })
  await other.abort()
  expect(await failure(other.result)).toMatchObject({ code: 'AGENT_ABORTED' })
  expect(checkouts()).toEqual([])
})

it('`changes` tells what was changed in the folder itself', async () => {
  const top = repository()
  const { changes } = await new Harness({ ...worker(edits), cwd: top }).run('Work.', { changes: true })
  expect(changes!.files.map(({ path }) => path)).toEqual(['added.txt', 'kept.txt', 'untracked.txt'])
  expect(readFileSync(join(top, 'kept.txt'), 'utf8')).toContain('four')
  await changes!.discard()
})

it.runIf(sandboxSupport().landlock > 0)(
  'the kernel keeps a sandboxed agent out of the repository',
  async () => {
    const top = repository()
    const before = stateOf(top)
    const attack = `echo evil > ${top}/kept.txt; echo evil > ${top}/.git/config; echo mine > mine`
    const harness = new Harness({ ...worker(attack), cwd: top, sandbox: 'workspace' })
    const { changes } = await harness.run('x', { worktree: true })
    expect(changes!.files.map(({ path }) => path)).toEqual(['mine'])
    expect(stateOf(top)).toEqual(before)
    await changes!.discard()
  },
)

it('a host that is killed leaves a checkout that ps lists and reap removes', async () => {
  const top = repository()
  const script = `
    const { Harness } = require(${JSON.stringify(join(__dirname, '..', 'index.js'))})
    const harness = new Harness(${JSON.stringify({ ...worker('sleep 1000'), cwd: top })})
    const turn = harness.start('x', { worktree: true })
    ;(async () => { for await (const { type } of turn) if (type === 'session') process.kill(process.pid, 'SIGKILL') })()`
  expect(await run(process.execPath, ['-e', script])).toMatchObject({ signal: 'SIGKILL' })
  expect(await listWorktrees()).toMatchObject([{ state: 'left', repository: top }])
  expect(sheepdogRefs(top)).toHaveLength(1)
  expect((await sheepdog(['ps'])).stdout).toContain(`checkout of ${top}`)
  expect(await reapWorktrees()).toMatchObject([{ worktree: { repository: top } }])
  expect([await listWorktrees(), sheepdogRefs(top), checkouts()]).toEqual([[], [], []])
})
