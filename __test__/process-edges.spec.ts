import { execFileSync, spawn as spawnChild } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { run, spawn } from '../index.js'
import { isAlive } from './alive'

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))
const root = join(import.meta.dirname, '..')

/** Until nothing runs under the pid: a zombie has ended, whoever has yet to be told. */
async function ended(pid: number, withinMs = 10_000): Promise<void> {
  for (const begun = Date.now(); isAlive(pid); await sleep(5)) {
    if (Date.now() - begun > withinMs) throw new Error(`${pid} still runs after ${withinMs} ms`)
  }
}

describe('the edges of a run', () => {
  afterEach(() => void vi.useRealTimers())

  it('a line that is too long is an error also when the program exits at once', async () => {
    for (let i = 0; i < 20; i++) {
      const process = spawn('sh', ['-c', 'echo ok; echo 0123456789abcdef'], { maxLineBytes: 10 })
      const drained = (async () => {
        for await (const _ of process);
      })()
      await expect(drained).rejects.toMatchObject({ code: 'PROCESS_LINE_TOO_LONG' })
    }
  })

  it('a slow reader is nobody who holds the pipes open', async () => {
    const script = `yes ${'a'.repeat(199)} | head -c 1000000`
    const process = spawn('sh', ['-c', script], { drainMs: 50 })
    // Longer than the drain.
    for await (const _ of process.lineBatches()) await sleep(60)
    expect((await process.result).pipesHeldOpen).toBe(false)
  })

  it('nothing is lost to a slow reader of a program with a wide pipe', async () => {
    const wide = 'import fcntl,os; fcntl.fcntl(1,1031,1<<20); os.write(1,(b"x"*99+b"\\n")*10000)'
    const process = spawn('python3', ['-c', wide], { drainMs: 50 })
    let lines = 0
    for await (const batch of process.lineBatches()) {
      lines += batch.lines.length
      await sleep(60)
    }
    expect([lines, (await process.result).stdoutBytes]).toEqual([10000, 1_000_000])
  })

  it('kill and abort are heard during the drain', async () => {
    const abort = new AbortController()
    const process = spawn('sh', ['-c', 'sleep 20 & exit 0'], {
      drainMs: 20_000,
      killGraceMs: 100,
      signal: abort.signal,
    })
    await process.started
    await ended(process.pid!)
    const begun = Date.now()
    abort.abort()
    await process.result.catch(() => {})
    expect(Date.now() - begun).toBeLessThan(10_000)
  })

  it('the group gets its grace although its leader obeys at once', async () => {
    const file = join(mkdtempSync(join(tmpdir(), 'sheepdog-')), 'clean')
    const script = `(trap "sleep 0.1; touch ${file}; exit" TERM; echo up; while :; do sleep 0.05; done) & wait`
    const process = spawn('sh', ['-c', script], { killGraceMs: 3000 })
    for await (const _ of process) break
    await process.kill()
    expect(existsSync(file)).toBe(true)
  })

  it('a text that JavaScript can not hold is a named error with its facts', async () => {
    const options = { maxOutputBytes: 2 ** 30 }
    const script = `yes ${'a'.repeat(99)} | head -c 600000000`
    await run('sh', ['-c', script], options).then(
      (result) => expect(result.truncated).toBe(true),
      (error) => expect(error.code).toMatch(/^PROCESS_|^INVALID_OPTION/),
    )
  })

  it('an environment that was replaced is inherited', async () => {
    const before = process.env
    process.env = { ...before, REPLACED: 'yes' }
    try {
      expect((await run('sh', ['-c', 'echo $REPLACED'])).stdout).toBe('yes\n')
    } finally {
      process.env = before
    }
  })

  it('the working directory is the one at the call', async () => {
    const before = process.cwd()
    const seen = new Set<string>()
    for (let i = 0; i < 40; i++) {
      process.chdir('/usr')
      const running = run('pwd')
      process.chdir('/')
      seen.add((await running).stdout)
    }
    process.chdir(before)
    expect([...seen]).toEqual(['/usr\n'])
  })

  it('a lack of descriptors at the first run does not cost the guard for ever', () => {
    const script = `
      import { run } from ${JSON.stringify(join(root, 'index.js'))}; import fs from 'node:fs'
      const held = []; try { for (;;) held.push(fs.openSync('/dev/null')) } catch {}
      fs.closeSync(held.pop()); fs.closeSync(held.pop())
      await run('true').catch(() => {})
      for (const fd of held) fs.closeSync(fd)
      console.log((await run('true')).containment)`
    const node = `ulimit -n 64; exec "$0" --input-type=module -e "$1"`
    expect(execFileSync('sh', ['-c', node, process.execPath, script]).toString()).toBe('guard\n')
  })

  it.each([
    ['timeout', 1000, 'use `timeoutMs`'],
    ['killSignal', 'SIGKILL', '`kill(signal)` sends another signal'],
    ['all', true, '`lines()` has both streams'],
    ['detached', true, "use `strays: 'keep'`"],
    ['maxBuffer', 1000, 'use `maxOutputBytes`'],
    ['stripFinalNewline', true, 'use `trim: true`'],
    ['stdout', 'inherit', '`echo: "stdout"` shows stdout'],
    ['cancelSignal', new AbortController().signal, 'use `signal`'],
    ['shell', true, "run it as run('sh', ['-c', command])"],
    ['ipc', true, 'there is no IPC channel'],
  ])(
    'an option of another library is refused with what to use in its place: %s',
    async (name, value, hint) => {
      const refused = run('true', [], { [name]: value } as never)
      await expect(refused).rejects.toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringContaining(`${name}: no such option: `),
      })
      await expect(refused).rejects.toThrow(hint)
    },
  )

  it('a host that was stopped does not take its chatty programs for idle', async () => {
    const script = `
      import { run } from ${JSON.stringify(join(root, 'index.js'))}
      console.log('ready')
      run('sh', ['-c', 'i=0; while [ $i -lt 12 ]; do echo x; sleep 0.1; i=$((i+1)); done'], { idleTimeoutMs: 600 })
        .then(() => console.log('ok'), (error) => console.log(error.code))`
    const host = spawnChild(process.execPath, ['--input-type=module', '-e', script])
    let said = ''
    host.stdout.on('data', (text) => (said += text))
    await once(host.stdout, 'data')
    await sleep(100)
    host.kill('SIGSTOP')
    await sleep(1000)
    host.kill('SIGCONT')
    await new Promise((resolve) => host.on('exit', resolve))
    expect(said).toBe('ready\nok\n')
  })

  it('the pid is known with the result', async () => {
    for (let i = 0; i < 50; i++) {
      const process = spawn('true')
      const { pid } = await process.result
      expect(process.pid).toBe(pid)
    }
  })

  it('a stray of a terminated worker does not see the end of a long drain', async () => {
    const script = `const { spawn } = require(${JSON.stringify(join(root, 'index.js'))})
      const p = spawn('sh', ['-c', 'setsid sleep 20 & echo $!; exit 0'], { drainMs: 20_000 })
      ;(async () => { for await (const line of p) { setTimeout(() => require('worker_threads').parentPort.postMessage(line.text), 200); break } })()`
    const worker = new Worker(script, { eval: true })
    const pid = Number(await new Promise((resolve) => worker.once('message', resolve)))
    await worker.terminate()
    await ended(pid)
  })

  it.each(['process.exit()', 'terminate()', 'an error'])(
    'a worker that ends by %s gives its programs SIGTERM and killGraceMs',
    async (how) => {
      const folder = mkdtempSync(join(tmpdir(), 'worker-end-'))
      onTestFinished(() => rmSync(folder, { recursive: true }))
      // It prints more than a pipe holds while it cleans up, and nobody reads.
      const cleanUp = `head -c 300000 /dev/zero; sleep 0.3; echo x > ${folder}/cleaned; exit`
      const wait = 'echo $$; while :; do sleep 0.05; done'
      const programs = [
        [`trap '${cleanUp}' TERM; ${wait}`, 30_000],
        [`trap '' TERM; ${wait}`, 400],
      ]
      const worker = new Worker(
        `const { parentPort, workerData } = require('worker_threads')
        const { spawn } = require(${JSON.stringify(join(root, 'index.js'))})
        ;(async () => {
          const pids = []
          for (const [script, killGraceMs] of workerData) {
            const child = spawn('sh', ['-c', script], { killGraceMs })
            child.result.catch(() => {})
            pids.push(Number((await child.lines().next()).value.text))
          }
          parentPort.postMessage(pids)
          parentPort.once('message', (how) => { if (how === 'an error') throw new Error('on purpose'); process.exit() })
        })()`,
        { eval: true, workerData: programs },
      )
      worker.on('error', () => {})
      const pids = await new Promise<number[]>((resolve) => worker.once('message', resolve))
      const begun = Date.now()
      if (how === 'terminate()') await worker.terminate()
      else worker.postMessage(how)
      await ended(pids[1]!)
      expect(Date.now() - begun).toBeGreaterThan(380)
      await ended(pids[0]!)
      expect(existsSync(join(folder, 'cleaned'))).toBe(true)
    },
  )

  it('a kill() that nobody awaits is no unhandled rejection', async () => {
    const seen: unknown[] = []
    const listeners = process.rawListeners('unhandledRejection')
    process.removeAllListeners('unhandledRejection')
    process.on('unhandledRejection', (error) => seen.push(error))
    const failed = spawn('no-such-program')
    void failed.kill()
    await failed.result.catch(() => {})
    // What nobody handles is told once the microtasks are done.
    await sleep(0)
    process.removeAllListeners('unhandledRejection')
    for (const listener of listeners) process.on('unhandledRejection', listener as never)
    expect(seen).toEqual([])
  })

  // Last: it spoils the delivery for the rest of the process.
  it('fake timers of a test runner do not stop the delivery', async () => {
    vi.useFakeTimers()
    let lines = 0
    try {
      const process = spawn('sh', ['-c', 'for i in 1 2 3 4 5; do echo $i; sleep 0.05; done'], {
        timeoutMs: 10_000,
      })
      for await (const _ of process) lines++
    } finally {
      vi.useRealTimers()
    }
    expect(lines).toBe(5)
  })
})
