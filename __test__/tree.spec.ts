// The trees of this user, seen from any host: `sheepdog ps` and `sheepdog reap`.
import { spawn as spawnChild } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterAll, describe, expect, it, vi } from 'vitest'
import { listTrees, reapTrees, run, spawn, stopTree } from '..'
import { isAlive } from './alive'
import { sheepdog } from './cli-command'

// A list of this file's own: the addon looks for its folder at the first run.
const state = vi.hoisted(() => {
  const { mkdtempSync } = process.getBuiltinModule('node:fs')
  const folder = mkdtempSync(`${process.env.TMPDIR ?? '/tmp'}/tree-spec-`)
  process.env.SHEEPDOG_STATE_DIR = folder
  return folder
})
afterAll(() => rmSync(state, { recursive: true, force: true }))

const fixture = join(__dirname, '../fixtures/bin/host-records.mjs')
const mine = async (name: string) => (await listTrees()).filter((tree) => tree.name === name)
const parentOf = (pid: number) => Number(/\) \w (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))![1])

const byNumber = (one: number, other: number) => one - other

/** Looks until it is so. */
async function until<T>(look: () => Promise<T | undefined | false>): Promise<T> {
  for (;;) {
    const seen = await look()
    if (seen) return seen
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

/** A host that runs this with `strays: "keep"`, and the pids that it printed. */
async function hostOf(script: string) {
  const host = spawnChild(process.execPath, [fixture, join(state, 'records'), '--', 'sh', '-c', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const lines = createInterface(host.stdout)[Symbol.asyncIterator]()
  const first = JSON.parse((await lines.next()).value as string) as { pid: number; text: string }
  return { host, pid: first.pid, printed: first.text.split(' ').map(Number) }
}

async function kill(host: ReturnType<typeof spawnChild>) {
  host.kill('SIGKILL')
  await once(host, 'exit')
}

describe('a tree', () => {
  it('is seen while it runs, by its name, with its processes, and not after its end', async () => {
    await using child = spawn('sh', ['-c', 'sleep 60 & echo here; wait'], { name: 'a seen run' })
    const { pid } = await child.started
    const tree = await until(async () => (await mine('a seen run'))[0])
    expect(tree).toMatchObject({ state: 'running', hostPid: process.pid, command: 'sh', pid, record: null })
    expect(tree.hostCommand).toContain('node')
    await until(async () => (await mine('a seen run'))[0]!.processes.length === 2)
    const [seen] = await mine('a seen run')
    expect(seen!.processes.find((one) => one.pid === pid)!.command).toMatch(/^sh -c sleep 60/)
    expect(seen!.processes.find((one) => one.pid !== pid)).toMatchObject({ parent: pid, command: 'sleep 60' })
    // Before Linux 6.2 each thread counts up to 64 pages for itself, so a small program may show next to nothing.
    expect(seen!.rssBytes).toBeGreaterThan(0)
    const { stdout } = await sheepdog(['ps'])
    expect(stdout).toMatch(/^ID +STATE +HOST +PID +RUNS +SILENT +PROCESSES +MEMORY +NAME$/m)
    expect(stdout).toMatch(new RegExp(`^${tree.id} +running +${process.pid} +${pid} .* 2 .*a seen run$`, 'm'))
    await child.kill()
    expect(await mine('a seen run')).toEqual([])
    await until(async () => !readdirSync(state).some((file) => file.startsWith(tree.id)))
  })

  it('tells how long it has been silent, to a second', async () => {
    await using child = spawn('sh', ['-c', 'sleep 1.2; echo late; sleep 60'], { name: 'a late word' })
    await until(async () => ((await mine('a late word'))[0]?.silentMs ?? 0) > 800)
    for await (const { text } of child) if (text === 'late') break
    // The time of the last output, after the start: however long the look itself takes.
    await until(async () => {
      const { durationMs, silentMs } = (await mine('a late word'))[0]!
      return durationMs - silentMs! > 800
    })
    expect((await mine('a late word'))[0]!.durationMs).toBeGreaterThan(1000)
  })

  it('leaves no line behind in the list, however short it is', async () => {
    await Promise.all(Array.from({ length: 20 }, (_, count) => run('sleep', [`${count / 400}`])))
    await until(async () => readdirSync(state).every((file) => file === 'records'))
  })

  it('that was kept on purpose is told from one that runs, and its host is not robbed of it', async () => {
    const { stdout } = await run('sh', ['-c', 'setsid sleep 60 >/dev/null 2>&1 & echo $!'], {
      strays: 'keep',
      name: 'kept',
    })
    const pid = Number(stdout)
    const tree = await until(async () => (await mine('kept')).find((one) => one.state === 'kept'))
    expect(tree.processes.map((one) => one.pid)).toEqual([pid])
    expect(await reapTrees([tree.id])).toEqual([])
    expect(isAlive(pid)).toBe(true)
    expect(await stopTree(tree.id)).toMatchObject({ killed: 1, left: 0 })
    expect(isAlive(pid)).toBe(false)
    await until(
      async () =>
        (await listTrees()).every((one) => one.id !== tree.id) &&
        !readdirSync(state).some((file) => file.startsWith(tree.id)),
    )
  })

  it('is stopped by its id, not processes whose mark begins alike', async () => {
    await using child = spawn('sh', ['-c', 'echo "$SHEEPDOG_RUN"; exec sleep 60'], { name: 'the real one' })
    const { pid } = await child.started
    const mark = (await child.lines().next()).value!.text as string
    // Before and after it in the order of marks.
    const forged = ['0', 'f'].map((digit) => {
      const SHEEPDOG_RUN = mark.slice(0, 16) + digit.repeat(16) + mark.slice(32)
      return spawnChild('sleep', ['60'], { env: { ...process.env, SHEEPDOG_RUN } })
    })
    try {
      const [tree] = await until(async () => (await mine('the real one'))[0] && (await mine('the real one')))
      expect(tree!.id).toBe(mark.slice(0, 16))
      await until(async () => (await listTrees()).filter(({ id }) => id === tree!.id).length === 3)
      expect(await stopTree(tree!.id)).toMatchObject({ tree: { pid }, killed: 1 })
      expect((await child.result).signal).toBe('SIGTERM')
      expect(forged.map((one) => isAlive(one.pid!))).toEqual([true, true])
    } finally {
      for (const one of forged) one.kill('SIGKILL')
    }
  })

  it('can be stopped from outside, and its host tells of the signal', async () => {
    await using child = spawn('sleep', ['60'], { name: 'stopped from outside' })
    await child.started
    const { id } = await until(async () => (await mine('stopped from outside'))[0])
    expect(await stopTree(id)).toMatchObject({ killed: 1, left: 0 })
    expect(await child.result).toMatchObject({ signal: 'SIGTERM', exitCode: null })
    await expect(stopTree(id)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })
})

describe('what a host that is gone left behind', () => {
  it('with strays: "keep" is found and reaped, once', async () => {
    // The shell ends at once, and its run with it; the host goes on.
    const { host, printed } = await hostOf('setsid sleep 600 >/dev/null 2>&1 & echo $!')
    const [pid] = printed
    await until(async () =>
      (await mine('left behind')).some((one) => one.state === 'kept' && one.hostPid === host.pid),
    )
    await kill(host)
    const [tree] = (await mine('left behind')).filter((one) => one.hostPid === host.pid)
    expect(tree).toMatchObject({ state: 'left', hostCommand: null })
    expect(tree!.record).toMatch(/records\/\d{4}-/)
    expect(isAlive(pid!)).toBe(true)
    const { status, stdout } = await sheepdog(['reap', tree!.id])
    expect({ status, stdout }).toEqual({
      status: 0,
      stdout: expect.stringMatching(
        new RegExp(`^${tree!.id}  left behind: ended 1 process \\(.*\\) after .*: ${pid}\n$`),
      ),
    })
    expect(isAlive(pid!)).toBe(false)
    expect(existsSync(join(state, tree!.id))).toBe(false)
    expect(await sheepdog(['reap', tree!.id])).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('no tree with this id'),
    })
  })

  it('with both guards killed is found and reaped', async () => {
    const { host, pid, printed } = await hostOf('setsid sleep 600 >/dev/null 2>&1 & echo $$ $!; wait')
    const inner = parentOf(pid)
    const outer = parentOf(inner)
    const tree = await until(async () => (await mine('left behind')).find((one) => one.hostPid === host.pid))
    expect(tree.processes.map((one) => one.pid).toSorted(byNumber)).toEqual(printed.toSorted(byNumber))
    // The host first, stopped: else it would see what is done to its run, and sweep.
    process.kill(host.pid!, 'SIGSTOP')
    // And a guard that sees the other one's end before its own would kill the tree.
    process.kill(outer, 'SIGSTOP')
    process.kill(inner, 'SIGKILL')
    process.kill(outer, 'SIGKILL')
    await kill(host)
    const [left] = (await listTrees()).filter((one) => one.id === tree.id)
    expect(left).toMatchObject({ state: 'left', name: 'left behind' })
    expect(left!.processes.map((one) => one.pid)).toContain(printed[1])
    const [reaped] = await reapTrees([tree.id])
    expect(reaped).toMatchObject({ left: 0 })
    for (const one of printed) expect(isAlive(one), `${one}`).toBe(false)
  })

  it('is not looked for by a pid that is another process by now, and stale lines go', async () => {
    await using child = spawn('sleep', ['60'], { name: 'innocent' })
    const { pid } = await child.started
    const innocent = await until(async () => (await mine('innocent'))[0])
    const entry = JSON.parse(
      readFileSync(
        join(
          state,
          readdirSync(state).find((file) => file.startsWith(innocent.id))!,
        ),
        'utf8',
      ),
    )
    const place = entry.mark.split('-')[1]
    // Its root's pid is the innocent's, but not its start; its host has a pid that no system gives.
    const mark = `${'0'.repeat(32)}-${place}-4194999-1`
    writeFileSync(
      join(state, mark),
      JSON.stringify({ ...entry, mark, root: pid, rootStart: 1, name: 'stale' }),
    )
    expect(await mine('stale')).toEqual([])
    expect(existsSync(join(state, mark))).toBe(false)
    expect(await reapTrees([mark.slice(0, 8)])).toEqual([])
    expect(isAlive(pid)).toBe(true)
  })
})

describe('a line of the list that somebody forged', () => {
  const startOf = (pid: number) =>
    Number(readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/.*\) /s, '').split(' ')[19])

  /** A line of a host that is gone, which says that its run is below `root`. */
  function forge(mark: string, host: string, root: number) {
    const [place, , start] = host.split('-')
    const gone = `${mark}-${place}-4194999-${start}`
    writeFileSync(
      join(state, gone),
      JSON.stringify({
        mark: gone,
        name: 'forged',
        command: 'sh',
        root,
        rootStart: startOf(root),
        pid: root,
      }),
      { mode: 0o600 },
    )
    return gone
  }

  it('names nobody whose own mark does not prove it: neither a guard nor any other process is ended', async () => {
    await using child = spawn('sleep', ['60'], { name: 'a true run' })
    const { pid } = await child.started
    await until(async () => (await mine('a true run'))[0])
    const line = readdirSync(state).find((file) =>
      readFileSync(join(state, file), 'utf8').includes('a true run'),
    )!
    const host = line.slice(33)
    // Somebody else's program, below nobody here.
    const other = spawnChild('sh', ['-c', 'sleep 60 & echo; wait'], {
      stdio: ['ignore', 'pipe', 'inherit'],
      detached: true,
    })
    await once(other.stdout, 'data')
    const inner = parentOf(pid)
    const forged = [inner, parentOf(inner), other.pid!].map((root, index) =>
      forge(`${index}`.repeat(32), host, root),
    )
    for (const tree of await listTrees()) expect(tree.name).not.toBe('forged')
    for (const { tree } of await reapTrees()) expect(tree.name).not.toBe('forged')
    for (const one of [pid, inner, parentOf(inner), other.pid!]) expect(isAlive(one)).toBe(true)
    expect(readdirSync(state).filter((file) => forged.includes(file))).toEqual([])
    await child.kill()
    process.kill(-other.pid!, 'SIGKILL')
  })
})
