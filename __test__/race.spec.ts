// A race: who wins, and what is left of the others.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { Harness, race } from '..'
import { sheepdog } from './cli-command'
import { isAlive } from './alive'
import { failure } from './played-agent'
import { checkouts, git, plainFolder, repository, sheepdogRefs, stateOf, worker } from './repository'

it('the first that passes wins, and nothing of the others is left', async () => {
  const top = repository()
  const before = stateOf(top)
  const [pid, judged] = [join(plainFolder(), 'pid'), join(plainFolder(), 'judged')]
  const { winner, entries } = await race('Answer.', {
    cwd: top,
    agents: [
      new Harness(worker('echo wrong > answer')),
      worker(`echo $$ > ${pid}; sleep 1000`),
      worker(`until [ -s ${pid} ] && [ -s ${judged} ]; do sleep 0.05; done; sleep 1; echo right > answer`),
    ],
    verify: ['sh', '-c', `grep -q right answer; code=$?; echo > ${judged}; exit $code`],
  })
  expect(entries.map(({ state }) => state)).toEqual(['failed-verify', 'aborted', 'passed'])
  expect(winner).toBe(entries[2])
  expect(winner).toMatchObject({ provider: 'codex', verify: { exitCode: 0 }, usage: { outputTokens: 3 } })
  expect(entries[0]).toMatchObject({ verify: { exitCode: 1 } })
  expect(entries[1]).toMatchObject({ error: { code: 'AGENT_ABORTED' } })
  expect(isAlive(Number(readFileSync(pid, 'utf8')))).toBe(false)
  expect(checkouts()).toEqual([])
  expect(stateOf(top)).toEqual(before)
  expect(new Set(sheepdogRefs(top))).toEqual(new Set([entries[0]!.changes!.ref, winner!.changes!.ref]))
  await winner!.changes!.apply()
  expect(readFileSync(join(top, 'answer'), 'utf8')).toBe('right\n')
  for (const { changes } of entries) await changes?.discard()
  expect(sheepdogRefs(top)).toEqual([])
})

it('what `verify` writes is no change, and nothing of the agent lives when it runs', async () => {
  const top = repository()
  const { winner } = await race('x', {
    cwd: top,
    agents: [worker('echo x > mine; (trap "" HUP TERM; exec sleep 1000) & echo $! > pid')],
    verify: ['sh', '-c', 'touch of-verify; ! kill -0 $(cat pid)'],
  })
  expect(winner?.changes!.files.map(({ path }) => path)).toEqual(['mine', 'pid'])
  await winner!.changes!.discard()
})

it('tells each entry when it has ended, and ends with what the caller throws', async () => {
  const top = repository()
  const ended: string[] = []
  const fault = new Error('enough')
  const told = race('x', {
    cwd: top,
    agents: [worker('exit 3'), worker('echo x > mine')],
    concurrency: 1,
    winner: 'all',
    onEntry({ state }) {
      ended.push(state)
      if (state === 'passed') throw fault
    },
  })
  await expect(told).rejects.toBe(fault)
  expect(ended).toEqual(['failed', 'passed'])
  expect([checkouts(), sheepdogRefs(top)]).toEqual([[], []])
})

it('nobody passes, all run, one at a time', async () => {
  const top = repository()
  const log = join(plainFolder(), 'log')
  const script = `echo begin >> ${log}; sleep 0.1; echo end >> ${log}`
  const lost = await race('x', {
    cwd: top,
    agents: [worker(script), worker(`${script}; exit 3`)],
    verify: ['false'],
    concurrency: 1,
  })
  expect(lost.winner).toBeUndefined()
  expect(lost.entries.map(({ state }) => state)).toEqual(['failed-verify', 'failed'])
  expect(readFileSync(log, 'utf8')).toBe('begin\nend\nbegin\nend\n')
  const all = await race('x', {
    cwd: top,
    agents: [worker('sleep 0.5; echo a > a'), worker('echo b > b')],
    winner: 'all',
  })
  expect(all.entries.map(({ state }) => state)).toEqual(['passed', 'passed'])
  expect(all.winner).toBe(all.entries[1])
})

it('all entries begin with the same files, whatever happens in the folder meanwhile', async () => {
  const top = repository()
  writeFileSync(join(top, 'new'), 'before')
  const { entries } = await race('x', {
    cwd: top,
    agents: [worker('cat new > seen'), worker('cat new > seen')],
    concurrency: 1,
    winner: 'all',
    onEntry: () => writeFileSync(join(top, 'new'), 'behind'),
  })
  const patches = await Promise.all(entries.map(({ changes }) => changes!.patch()))
  expect(patches[1]).toBe(patches[0])
  expect(patches[0]).toContain('+before')
  for (const { changes } of entries) await changes!.discard()
})

it('a deadline and a signal end all entries', async () => {
  const top = repository()
  const agents = [worker('sleep 1000'), worker('sleep 1000')]
  const late = await race('x', { cwd: top, agents, timeoutMs: 1500 })
  expect(late.entries.map(({ state }) => state)).toEqual(['aborted', 'aborted'])
  const stop = new AbortController()
  const running = race('x', { cwd: top, agents, signal: stop.signal })
  setTimeout(() => stop.abort(new Error('enough')), 500)
  expect(await failure(running)).toMatchObject({ code: 'AGENT_ABORTED', cause: { message: 'enough' } })
  expect([checkouts(), sheepdogRefs(top)]).toEqual([[], []])
})

it('a deadline that has passed starts nothing, and one that no timer can hold ends nothing', async () => {
  const cwd = repository()
  const started = join(plainFolder(), 'started')
  const agents = [worker(`touch ${started}; sleep 0.3`)]
  const passed = await race('x', { cwd, agents, timeoutMs: -1 })
  expect([passed.winner, passed.entries[0]!.state]).toEqual([undefined, 'aborted'])
  expect([existsSync(started), checkouts(), sheepdogRefs(cwd)]).toEqual([false, [], []])
  const { winner } = await race('x', { cwd, agents, timeoutMs: 2 ** 31 })
  expect(winner?.state).toBe('passed')
})

it('nothing starts outside of a repository, or with a wrong option', async () => {
  const started = join(plainFolder(), 'started')
  const agents = [worker(`touch ${started}`)]
  const refused = { code: 'INVALID_OPTION' }
  expect(await failure(race('x', { cwd: plainFolder(), agents }))).toMatchObject(refused)
  const cwd = repository()
  expect(await failure(race('x', { cwd, agents: [] }))).toMatchObject(refused)
  expect(await failure(race('x', { cwd, agents, verify: [] as never }))).toMatchObject(refused)
  const unknown = [...agents, { provider: 'codx' } as never]
  expect(await failure(race('x', { cwd, agents: unknown }))).toMatchObject({
    ...refused,
    message: expect.stringMatching(/^agents\[1\]\.provider: /),
  })
  expect(existsSync(started)).toBe(false)
})

it('the command races, and `agent --worktree --apply` brings a patch home', async () => {
  const top = repository()
  const { binary } = worker('echo right > answer')
  const words = (binary as string[]).flatMap((word) => ['--binary', word])
  const turn = await sheepdog(['agent', 'codex', 'x', '--cwd', top, '--worktree', '--apply', ...words])
  expect(turn).toMatchObject({ status: 0, stdout: 'Done.\n' })
  expect(turn.stderr).toContain('1 file changed; applied to your working tree')
  expect(readFileSync(join(top, 'answer'), 'utf8')).toBe('right\n')
  expect(git(top, 'status', '--porcelain')).toContain('?? answer')
  expect(sheepdogRefs(top)).toEqual([])
  const script = 'cat secret.env made > seen'
  const filled = (worker(script).binary as string[]).flatMap((word) => ['--binary', word])
  const flags = ['--include', '*.env', '--setup', 'echo made > made', '--base', 'HEAD', '--keep', 'always']
  const kept = await sheepdog(['agent', 'codex', 'x', '--cwd', top, '--json', ...flags, ...filled])
  const { result } = JSON.parse(kept.stdout.trim().split('\n').pop()!)
  expect(git(top, 'show', `${result.changes.ref}:seen`)).toBe('KEY=1\nmade')
  expect(readFileSync(join(result.changes.worktree, 'seen'), 'utf8')).toBe('KEY=1\nmade\n')
  const wrong = await sheepdog(['agent', 'codex', 'x', '--cwd', top, '--base', 'nowhere', ...filled])
  expect(wrong).toMatchObject({ status: 2, stderr: expect.stringContaining('--base: expected a commit') })
  const nowhere = await sheepdog(['race', 'x', '--agent', 'codex', '--cwd', plainFolder()])
  expect(nowhere).toMatchObject({ status: 2, stderr: expect.stringContaining('is not in a git repository') })
  expect(await sheepdog(['race', 'x'])).toMatchObject({ status: 2 })
})

it('the command names what lost, and leaves no ref of what it applied', async () => {
  const [top, bin] = [repository(), plainFolder()]
  const [, , script] = worker('echo $$ > answer').binary as string[]
  writeFileSync(join(bin, 'codex'), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  const env = { PATH: `${bin}:${process.env.PATH}` }
  const agents = ['--agent', 'codex', '--agent', 'codex', '--cwd', top]
  const lost = await sheepdog(['race', 'x', ...agents, '--verify', 'false'], env)
  expect(lost.status).toBe(1)
  const refs = sheepdogRefs(top)
  expect(refs).toHaveLength(2)
  for (const ref of refs) expect(lost.stderr).toContain(`codex failed-verify: git diff HEAD ${ref}\n`)
  const won = await sheepdog(['race', 'x', ...agents, '--apply'], env)
  expect(won).toMatchObject({ status: 0, stdout: 'Done.\n' })
  expect(sheepdogRefs(top)).toEqual(refs)
  expect(readFileSync(join(top, 'answer'), 'utf8')).toMatch(/^\d+\n$/)
})
