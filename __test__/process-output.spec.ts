import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import { pathToFileURL } from 'node:url'
import { Writable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { ConcurrencyLimit, run, spawn } from '../index.js'

const execute = promisify(execFile)
const entry = join(import.meta.dirname, '../index.mjs')
const sh = (script: string) => ['-c', script]
const odd = sh(String.raw`printf 'a\377\000b'`)
const bytes = [97, 255, 0, 98]

describe('the arguments of a call', () => {
  it('may be left out before the options', async () => {
    const folder = realpathSync(mkdtempSync(join(tmpdir(), 'run-')))
    expect((await run('pwd', { cwd: folder })).stdout).toBe(`${folder}\n`)
    expect(await run('pwd')).toMatchObject({ args: [], exitCode: 0 })
    expect((await spawn('pwd', { cwd: folder }).result).stdout).toBe(`${folder}\n`)
    expect((await run('pwd', undefined, { cwd: folder })).stdout).toBe(`${folder}\n`)
    for (const wrong of [null, 'x', 7]) {
      await expect(run('pwd', wrong as never)).rejects.toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringMatching(/^args: /),
      })
    }
    await expect(run('pwd', {} as never, {})).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })

  it('take a folder as a URL', async () => {
    const folder = join(realpathSync(mkdtempSync(join(tmpdir(), 'run-'))), 'with space')
    mkdirSync(folder)
    expect((await run('pwd', { cwd: pathToFileURL(folder) })).stdout).toBe(`${folder}\n`)
    await expect(run('pwd', { cwd: new URL('https://example.org/') })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringMatching(/^cwd: expected a path or a file: URL/),
    })
  })
})

describe('bytes', () => {
  it('come as they are in a result and in that of an error', async () => {
    const { stdout, stderr, stdoutBytes } = await run('sh', odd, { encoding: 'buffer' })
    expect(stdout).toBeInstanceOf(Uint8Array)
    expect([[...stdout], [...stderr], stdoutBytes]).toEqual([bytes, [], 4])
    const silent = run('sh', [...sh(`${odd[1]!}; exec sleep 60`)], {
      encoding: 'buffer',
      idleTimeoutMs: 2000,
    })
    const error = (await silent.catch((failed: unknown) => failed)) as { result: { stdout: Uint8Array } }
    expect([...error.result.stdout]).toEqual(bytes)
  })

  it('are cut as text is', async () => {
    const options = { maxOutputBytes: 40 }
    const text = await run('seq', ['1', '1000'], options)
    const cut = await run('seq', ['1', '1000'], { ...options, encoding: 'buffer' })
    expect(Buffer.from(cut.stdout).toString()).toBe(text.stdout)
  })

  it('are iterated, all of them, whenever the iteration begins', async () => {
    const early = spawn('sh', odd)
    const late = spawn('sh', odd)
    await late.result
    for (const running of [early, late]) {
      const read: number[] = []
      for await (const chunk of running.bytes()) read.push(...chunk)
      expect(read).toEqual(bytes)
    }
  })

  it('are streams of both kinds', async () => {
    const web = spawn('sh', odd)
    expect(web.stdout).toBe(web.stdout)
    expect([...new Uint8Array(await new Response(web.stdout).arrayBuffer())]).toEqual(bytes)
    const node = spawn('sh', odd)
    const chunks = await node.stdoutNode.toArray()
    expect([...Buffer.concat(chunks as Uint8Array[])]).toEqual(bytes)
  })

  it('wait for a slow reader in the pipe', async () => {
    const running = spawn('sh', sh('head -c 30000000 /dev/zero; echo done >&2'))
    const iterator = running.bytes()
    await iterator.next()
    await new Promise((resolve) => setTimeout(resolve, 200))
    let isOver = false
    void running.result.then(() => (isOver = true))
    let read = 65_536
    expect(isOver).toBe(false)
    for await (const chunk of iterator) read += chunk.length
    expect(read).toBeGreaterThanOrEqual(30_000_000)
    expect((await running.result).stderr).toBe('done\n')
  })

  it('that nobody reads are kept as ever: a stream that is only looked at is none', async () => {
    const running = spawn('sh', sh('head -c 3000000 /dev/zero'))
    void running.stdout
    void running.stdoutNode
    expect((await running.result).stdoutBytes).toBe(3_000_000)
  })

  it('have one reader', async () => {
    const running = spawn('sh', odd)
    const reader = running.stdout.getReader()
    await reader.read()
    for (const second of [() => running.bytes(), () => running.lines(), () => running.stdoutNode]) {
      expect(second).toThrow(expect.objectContaining({ code: 'PROCESS_ITERATED' }))
    }
    await running.result
  })

  it('that are left early are drained', async () => {
    const web = spawn('sh', sh('head -c 3000000 /dev/zero'))
    await web.stdout.cancel()
    expect((await web.result).stdoutBytes).toBe(3_000_000)
    const node = spawn('sh', sh('head -c 3000000 /dev/zero'))
    for await (const chunk of node.stdoutNode) if (chunk) break
    expect((await node.result).stdoutBytes).toBe(3_000_000)
    const iterated = spawn('sh', sh('head -c 3000000 /dev/zero'))
    for await (const chunk of iterated.bytes()) if (chunk) break
    expect((await iterated.result).stdoutBytes).toBe(3_000_000)
  })

  it('end by throwing what the result rejects with', async () => {
    const start = () => spawn('sh', sh('echo x; exec sleep 60'), { idleTimeoutMs: 300 })
    const code = { code: 'PROCESS_IDLE' }
    const running = [start(), start(), start()] as const
    await expect(new Response(running[0].stdout).text()).rejects.toMatchObject(code)
    const sink = new Writable({ write: (_chunk, _encoding, done) => done() })
    await expect(pipeline(running[1].stdoutNode, sink)).rejects.toMatchObject(code)
    const iterated = async () => {
      for await (const chunk of running[2].bytes()) void chunk
    }
    await expect(iterated()).rejects.toMatchObject(code)
  })
})

describe('stdio of the host', () => {
  it('is what the program reads and writes; nothing is kept, and silence means nothing', async () => {
    const program = `
      import { run } from ${JSON.stringify(entry)}
      const kept = await run('sh', ['-c', 'cat; echo out; echo err >&2; sleep 0.4'], { stdio: 'inherit', idleTimeoutMs: 200 })
      console.log(JSON.stringify([kept.stdout, kept.stderr, kept.stdoutBytes, kept.firstOutputMs]))`
    const host = execute(process.execPath, ['--input-type=module', '-e', program])
    host.child.stdin!.end('typed\n')
    const { stdout, stderr } = await host
    expect(stdout).toBe('typed\nout\n["","",0,null]\n')
    expect(stderr).toBe('err\n')
  })

  it('is its stdin alone when asked for', async () => {
    const program = `
      import { run } from ${JSON.stringify(entry)}
      console.log((await run('cat', { stdin: 'inherit' })).stdout.toUpperCase())`
    const host = execute(process.execPath, ['--input-type=module', '-e', program])
    host.child.stdin!.end('typed')
    expect((await host).stdout).toBe('TYPED\n')
  })
})

describe('a kill', () => {
  it('sends the signal that is given, and gives the result', async () => {
    const running = spawn('sh', sh("trap 'echo got; exit 3' USR1; echo ready; while :; do sleep 0.02; done"))
    const lines = running.lines()
    await lines.next()
    const result = await running.kill('SIGUSR1')
    expect(result).toMatchObject({ stdout: 'ready\ngot\n', exitCode: 3 })
    await expect(running.result).rejects.toMatchObject({ code: 'PROCESS_KILLED', result: { exitCode: 3 } })
  })

  it('climbs the ladder when the signal does not end it', async () => {
    const running = spawn('sh', sh("trap '' INT TERM; echo ready; while :; do sleep 0.02; done"), {
      killGraceMs: 200,
    })
    await running.lines().next()
    expect((await running.kill('SIGINT')).signal).toBe('SIGKILL')
  })

  it('after the end gives the result as it was', async () => {
    const running = spawn('sh', sh('exit 4'))
    const result = await running.result
    expect(await running.kill('SIGKILL')).toBe(result)
    expect(await running.kill()).toBe(result)
  })

  it('refuses what is no signal', async () => {
    await using running = spawn('sleep', ['60'])
    await running.started
    for (const signal of ['SIGFOO', 'toString', 9]) {
      await expect(running.kill(signal as never)).rejects.toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringMatching(/^signal: /),
      })
    }
    expect((await running.kill('SIGKILL')).signal).toBe('SIGKILL')
  })
})

describe('a limit', () => {
  it('is shared by runs and by what its user does', async () => {
    const limit = new ConcurrencyLimit(2)
    let under_way = 0
    let most = 0
    const work = async () => {
      most = Math.max(most, ++under_way)
      await run('sleep', ['0.02'])
      under_way--
    }
    await Promise.all(Array.from({ length: 6 }, () => limit.use(work)))
    expect(most).toBe(2)
  })

  it('lets runs wait for each other, their clocks at rest', async () => {
    const limit = new ConcurrencyLimit(1)
    const ran = await Promise.all(
      Array.from({ length: 4 }, () =>
        run('sh', sh('date +%s%N; sleep 0.2; date +%s%N'), { limit, timeoutMs: 20_000 }),
      ),
    )
    const times = ran.map(({ stdout }) => stdout.trim().split('\n').map(BigInt))
    for (let later = 1; later < times.length; later++) {
      expect(times[later]![0]! >= times[later - 1]![1]!).toBe(true)
    }
    expect(ran[3]!.durationMs).toBeLessThan(ran.reduce((sum, { durationMs }) => sum + durationMs, 0))
  })

  it('gives up who is aborted or killed while waiting', async () => {
    const limit = new ConcurrencyLimit(1)
    const first = spawn('sleep', ['60'], { limit })
    await first.started
    const controller = new AbortController()
    const aborted = run('true', { limit, signal: controller.signal })
    const killed = spawn('true', { limit })
    const last = run('true', { limit })
    controller.abort(new Error('why'))
    await expect(aborted).rejects.toMatchObject({ code: 'PROCESS_ABORTED', cause: { message: 'why' } })
    expect(await killed.kill()).toMatchObject({ pid: 0, exitCode: null, signal: null, ok: false })
    await expect(killed.started).rejects.toMatchObject({ code: 'PROCESS_KILLED' })
    await expect(killed.result).rejects.toMatchObject({ code: 'PROCESS_KILLED' })
    await first.kill()
    expect((await last).exitCode).toBe(0)
  })

  it('frees the slot of work that fails', async () => {
    const limit = new ConcurrencyLimit(1)
    const broken = () => {
      throw new Error('broken')
    }
    await expect(limit.use(broken)).rejects.toThrow('broken')
    await expect(limit.use(async () => broken())).rejects.toThrow('broken')
    expect(await limit.use(() => 'free')).toBe('free')
  })

  it('waits no longer than is wanted', async () => {
    const limit = new ConcurrencyLimit(1)
    const never = () => Promise.reject(new Error('was begun'))
    await expect(limit.use(never, { timeoutMs: -1 })).rejects.toMatchObject({ code: 'PROCESS_TIMED_OUT' })
    await expect(limit.use(never, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      code: 'PROCESS_ABORTED',
    })
    let leave = () => {}
    const held = limit.use(() => new Promise<void>((resolve) => (leave = resolve)))
    await expect(limit.use(never, { timeoutMs: 20 })).rejects.toMatchObject({ timeoutMs: 20 })
    const controller = new AbortController()
    const waiting = limit.use(never, { signal: controller.signal })
    controller.abort(new Error('why'))
    await expect(waiting).rejects.toMatchObject({ code: 'PROCESS_ABORTED', cause: { message: 'why' } })
    leave()
    await held
    expect(await limit.use(() => 1, { timeoutMs: 2 ** 40 })).toBe(1)
  })

  it('is refused when it is none', async () => {
    await expect(run('true', { limit: 3 as never })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
      message: 'limit: expected a ConcurrencyLimit, got 3',
    })
    await expect(new ConcurrencyLimit(1).use(7 as never)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
  })
})

describe('a spawn that fails', () => {
  const host = async (program: string) => {
    const text = `import { spawn } from ${JSON.stringify(entry)}\n${program}`
    return (await execute(process.execPath, ['--input-type=module', '-e', text])).stderr
  }

  it('is told once when nobody watches it', async () => {
    const stderr = await host("spawn('no-such'); spawn('no-such'); spawn('sh', ['-c', 'exit 1'])")
    expect(stderr.match(/SheepdogWarning/g)).toHaveLength(1)
    expect(stderr).toContain('PROCESS_NOT_FOUND: no-such')
  })

  it('is told to nobody else when somebody does', async () => {
    const watched = ['await p.started.catch(() => {})', 'p.result.catch(() => {})', 'p.kill()', 'p.lines()']
    for (const one of watched) expect(await host(`const p = spawn('no-such'); ${one}`)).toBe('')
    expect(await host("spawn('true', { signal: AbortSignal.abort() })")).toBe('')
  })
})

describe('saveOutput', () => {
  it('writes both streams to files, and rejects as the run does when all that came is written', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'save-'))
    const [out, err] = [join(folder, 'out'), join(folder, 'err')]
    const running = spawn('sh', ['-c', 'head -c 1000000 /dev/zero; echo words >&2'])
    await expect(running.saveOutput({ stdout: out, stderr: pathToFileURL(err) })).resolves.toEqual({
      stdoutBytes: 1_000_000,
      stderrBytes: 6,
    })
    expect(statSync(out).size).toBe(1_000_000)
    expect(readFileSync(err, 'utf8')).toBe('words\n')
    expect((await running.result).stdoutBytes).toBe(1_000_000)

    const silent = spawn('sh', ['-c', 'echo first; sleep 600'], { idleTimeoutMs: 2000 })
    await expect(silent.saveOutput({ stdout: out, append: true })).rejects.toMatchObject({
      code: 'PROCESS_IDLE',
    })
    expect(statSync(out).size).toBe(1_000_006)
  })

  it('refuses what is wrong: no file, a second reader, a folder, a program that is not there', async () => {
    const running = spawn('sh', ['-c', 'echo words'])
    await expect(running.saveOutput({})).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await expect(running.saveOutput({ stdout: 1 } as never)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await expect(running.saveOutput({ stdout: new URL('http://x/y') })).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    })
    await expect(running.saveOutput({ stdout: tmpdir() })).rejects.toMatchObject({
      code: 'PROCESS_OUTPUT_FAILED',
      file: tmpdir(),
      errno: 21,
    })
    expect(() => running.lines()).toThrow('already being read')
    expect((await running.result).stdout).toBe('words\n')
    const missing = spawn('no-such-program')
    const kept = join(mkdtempSync(join(tmpdir(), 'save-')), 'x')
    writeFileSync(kept, 'of an earlier run')
    await expect(missing.saveOutput({ stdout: kept })).rejects.toMatchObject({ code: 'PROCESS_NOT_FOUND' })
    expect(readFileSync(kept, 'utf8')).toBe('of an earlier run')
  })

  it('that comes too late for the whole output says so', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'save-'))
    const printed = 'head -c 100000 /dev/zero | tr "\\\\0" x'
    const late = spawn('sh', ['-c', printed], { maxOutputBytes: 1000 })
    await late.result
    const stdout = join(folder, 'late')
    await expect(late.saveOutput({ stdout })).rejects.toMatchObject({
      code: 'PROCESS_OUTPUT_FAILED',
      file: stdout,
      message: expect.stringContaining('right after spawn()'),
    })
    const kept = spawn('sh', ['-c', printed])
    await kept.result
    await expect(kept.saveOutput({ stdout })).resolves.toEqual({ stdoutBytes: 100_000, stderrBytes: 0 })
    const detached = spawn('sh', ['-c', 'echo one; read -r go; echo two'], { stdin: 'pipe' })
    const saved = detached.saveOutput({ stdout })
    detached.detachOutput()
    await detached.stdin.end()
    await expect(saved).resolves.toBeTruthy()
  })
})
