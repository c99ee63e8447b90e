import { execFile } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import { describe, expect, it } from 'vitest'
import { run, spawn } from '../index.js'
import { isAlive } from './alive'

const fixture = (name: string) => join(import.meta.dirname, '../fixtures/bin', name)
const execute = promisify(execFile)
const sh = (script: string, options = {}) => run('sh', ['-c', script], options)

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 10))
}

describe('run', () => {
  it('resolves with everything a user asks about, for any exit status', async () => {
    const result = await sh('echo out; echo err >&2; exit 3')
    expect(result).toMatchObject({
      command: 'sh',
      args: ['-c', 'echo out; echo err >&2; exit 3'],
      exitCode: 3,
      signal: null,
      stdout: 'out\n',
      stderr: 'err\n',
      stdoutBytes: 4,
      stderrBytes: 4,
      truncated: false,
      pipesHeldOpen: false,
      straysKilled: 0,
    })
    expect(result.pid).toBeGreaterThan(0)
    expect(result.durationMs).toBeGreaterThan(0)
    expect(result.firstOutputMs).toBeLessThanOrEqual(result.lastOutputMs!)
    expect(result.usage.maxRssBytes).toBeGreaterThan(0)
    expect(['guard', 'guard+cgroup', 'group']).toContain(result.containment)
  })

  it('reports a signal and no output as null', async () => {
    const result = await sh('kill -TERM $$')
    expect(result).toMatchObject({
      exitCode: null,
      signal: 'SIGTERM',
      firstOutputMs: null,
      lastOutputMs: null,
    })
  })

  it('gives the environment that was asked for', async () => {
    process.env.SHEEPDOG_TEST_A = 'a'
    process.env.SHEEPDOG_TEST_B = 'b'
    const print = 'echo "$SHEEPDOG_TEST_A,$SHEEPDOG_TEST_B,$C"'
    expect((await sh(print, { env: { C: 'c', SHEEPDOG_TEST_B: undefined } })).stdout).toBe('a,,c\n')
    expect((await sh(print, { inheritEnv: ['PATH', 'SHEEPDOG_TEST_B'] })).stdout).toBe(',b,\n')
    expect((await sh(print, { inheritEnv: false, env: { PATH: process.env.PATH, C: 'c' } })).stdout).toBe(
      ',,c\n',
    )
  })

  it('writes input and closes it, and takes stdin as null without', async () => {
    expect((await run('cat', [], { input: 'text ü' })).stdout).toBe('text ü')
    expect((await run('cat', [], { input: new Uint8Array([65, 66]) })).stdout).toBe('AB')
    expect((await run('cat')).stdout).toBe('')
    expect((await run('true', [], { input: 'x'.repeat(8 << 20) })).exitCode).toBe(0)
  })

  it('keeps head and tail on line borders', async () => {
    const { stdout, truncated } = await sh('seq 1 100000', { maxOutputBytes: 40 })
    expect(truncated).toBe(true)
    expect(stdout).toMatch(/^1\n2\n[\s\S]*\n\[\.\.\. \d+ bytes left out \.\.\.\]\n[\s\S]*100000\n$/)
  })

  it('takes any number for a timeout', async () => {
    for (const timeoutMs of [0, Infinity, 2 ** 40, 1e300]) {
      expect((await sh('sleep 0.05; echo x', { timeoutMs, idleTimeoutMs: timeoutMs })).stdout).toBe('x\n')
    }
  })
})

describe('an abort signal', () => {
  it('that is already aborted starts nothing', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sheepdog-'))
    const reason = new Error('enough')
    const signal = AbortSignal.abort(reason)
    await expect(run('touch', [join(folder, 'x')], { signal })).rejects.toMatchObject({
      code: 'PROCESS_ABORTED',
      cause: reason,
    })
    expect(existsSync(join(folder, 'x'))).toBe(false)
    rmSync(folder, { recursive: true })
  })

  it('stops the tree, leaves onabort alone and is let go of at the end', async () => {
    const controller = new AbortController()
    let heard = 0
    controller.signal.onabort = () => heard++
    const running = spawn('sh', ['-c', 'setsid sh -c "echo \\$\\$ $$; exec sleep 60" & wait'], {
      signal: controller.signal,
    })
    const { value } = await running.lines().next()
    controller.abort()
    const error = await running.result.catch((error) => error)
    expect(error).toMatchObject({ code: 'PROCESS_ABORTED', result: { signal: 'SIGTERM', straysKilled: 1 } })
    expect(heard).toBe(1)
    for (const pid of value.text.split(' ')) expect(isAlive(Number(pid))).toBe(false)
  })

  it('of a run that has ended is nothing to it', async () => {
    const controller = new AbortController()
    const running = spawn('true', [], { signal: controller.signal })
    const result = await running.result
    controller.abort()
    expect(await running.kill()).toEqual(result)
    expect(await running.result).toEqual(result)
  })
})

describe('kill', () => {
  it('resolves when the tree is gone, while result rejects', async () => {
    const running = spawn(
      'sh',
      ['-c', 'trap "" TERM; setsid sh -c "echo \\$\\$ $$; exec sleep 60" & wait; sleep 60'],
      { killGraceMs: 200 },
    )
    const { value } = await running.lines().next()
    const result = await running.kill()
    expect(result).toMatchObject({ signal: 'SIGKILL', exitCode: null })
    for (const pid of value.text.split(' ')) expect(isAlive(Number(pid))).toBe(false)
    await expect(running.result).rejects.toMatchObject({ code: 'PROCESS_KILLED', result })
  })

  it('is what leaving an `await using` block does', async () => {
    let pid: number | undefined
    {
      await using running = spawn('sleep', ['60'])
      pid = (await running.started).pid
      expect(running.pid).toBe(pid)
    }
    expect(isAlive(pid)).toBe(false)
  })
})

describe('the host', () => {
  it('whose thread is blocked: silence is ended on time, chatter is left alone', async () => {
    const { stdout } = await execute(process.execPath, [fixture('host-blocks.mjs')])
    const seen = JSON.parse(stdout)
    expect(seen).toMatchObject({ code: 'PROCESS_IDLE', lines: 10 })
    expect(seen.durationMs).toBeGreaterThan(690)
    // The thread is blocked for 3000 ms.
    expect(seen.durationMs).toBeLessThan(2900)
  })

  it('ends by itself when all is done', async () => {
    const { stdout } = await execute(process.execPath, [fixture('host-ends.mjs')], { timeout: 20_000 })
    expect(stdout).toBe('x\ndone\n')
  })

  it('runs from a worker thread, with its environment, and its runs end with it', async () => {
    const worker = new Worker(fixture('worker-runs.mjs'))
    const { stdout, pids } = await new Promise<{ stdout: string; pids: number[] }>((resolve, reject) => {
      worker.once('message', resolve).once('error', reject)
    })
    expect(stdout).toBe('yes\n')
    expect(pids.every(isAlive)).toBe(true)
    await worker.terminate()
    await until(() => !pids.some(isAlive))
  })

  it('runs a thousand children at once', async () => {
    const results = await Promise.all(Array.from({ length: 1000 }, (_, index) => sh(`echo ${index}`)))
    expect(results.map((result) => result.stdout)).toEqual(
      Array.from({ length: 1000 }, (_, index) => `${index}\n`),
    )
  })

  it('is not touched: its own children keep their exit events', async () => {
    const own = execute('sh', ['-c', 'sleep 0.2; exit 5']).catch((error) => error.code)
    await Promise.all(Array.from({ length: 20 }, () => sh('sleep 60 & exit 0', { drainMs: 0 })))
    expect(await own).toBe(5)
  })
})
