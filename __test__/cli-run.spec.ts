import { spawn as spawnChild } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { run, spawn } from '../index.js'
import { isAlive } from './alive'
import { command, sheepdog, started } from './cli-command'

const folder = mkdtempSync(join(tmpdir(), 'sheepdog-cli-'))
afterAll(() => rmSync(folder, { recursive: true }))

const plainFile = join(folder, 'plain-file')
writeFileSync(plainFile, 'no program\n')
const sh = (script: string) => ['--', 'sh', '-c', script]

describe('sheepdog run', () => {
  it('passes both streams through and ends with the status of the program', async () => {
    expect(await sheepdog(['run', ...sh('printf "one\\n\\ntwo ü\\n"; echo three >&2; exit 3')])).toEqual({
      status: 3,
      stdout: 'one\n\ntwo ü\n',
      stderr: 'three\n',
    })
  })

  it('gives the program its own words, dashes and all, also without --', async () => {
    expect((await sheepdog(['run', 'echo', '--json', '--', '-n'])).stdout).toBe('--json -- -n\n')
  })

  it('refuses a word that is not UTF-8, which Node has changed', async () => {
    const script = `exec "$0" "$1" run -- echo "$(printf 'f\\377')"`
    const { stderr, exitCode } = await run('sh', ['-c', script, process.execPath, command])
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining('the argument f\\xff is not UTF-8')])
    expect((await sheepdog(['run', '--', 'echo', '\ufffd'])).stdout).toBe('\ufffd\n')
  })

  it('ends with 128+N for a signal that Node has no name for', async () => {
    const { status, stdout } = await sheepdog(['run', '--json', ...sh('kill -34 $$')])
    expect([status, JSON.parse(stdout)]).toEqual([
      162,
      expect.objectContaining({ exitStatus: 162, signal: 'SIG34' }),
    ])
  })

  it('is stopped and continued together with the program', async () => {
    // As a shell starts it: in a process group of its own, with its parent in another one. The kernel drops SIGTSTP in a group whose
    // parents are gone, such as that of a test run in the background.
    const shell = [
      'import os, subprocess, sys',
      'started = subprocess.Popen(sys.argv[1:], preexec_fn=os.setpgrp)',
      'print("sheepdog", started.pid, flush=True)',
      'sys.exit(started.wait())',
    ].join('\n')
    // It runs until it is ended, however late a busy machine stops and continues it. A shell that waits for its vfork is not stopped.
    const words = [command, 'run', ...sh('echo program $$; exec sleep 3600')]
    const parent = spawnChild('python3', ['-c', shell, process.execPath, ...words], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const exit = once(parent, 'exit')
    let printed = ''
    parent.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text))
    const pidOf = (name: string) =>
      vi.waitFor(() => Number(new RegExp(`^${name} (\\d+)\n`, 'm').exec(printed)![1]), { timeout: 60_000 })
    const own = await pidOf('sheepdog')
    onTestFinished(() => void (isAlive(own) && process.kill(own, 'SIGKILL')))
    const pid = await pidOf('program')
    const state = (of: number) => readFileSync(`/proc/${of}/stat`, 'utf8').replace(/^.*\) /, '')[0]
    process.kill(own, 'SIGTSTP')
    while (state(pid) !== 'T' || state(own) !== 'T') await sleep(10)
    process.kill(own, 'SIGCONT')
    while (state(pid) === 'T' || state(own) === 'T') await sleep(10)
    process.kill(own, 'SIGTERM')
    expect(await exit).toEqual([143, null])
  })

  it('gives the program an empty stdin', async () => {
    expect(await sheepdog(['run', '--idle', '20s', '--', 'cat'])).toEqual({
      status: 0,
      stdout: '',
      stderr: '',
    })
  })

  it('gives the program what is piped to it, or a file', async () => {
    const file = join(folder, 'input')
    writeFileSync(file, 'a file\n')
    const sheepdogRun = `'${process.execPath}' '${command}' run --`
    const { stdout } = await run('sh', [
      '-c',
      `printf diff | ${sheepdogRun} wc -c; ${sheepdogRun} cat < '${file}'`,
    ])
    expect(stdout).toBe('4\na file\n')
  })

  it('leaves what the program does not read to whoever reads next', async () => {
    const sheepdogRun = `'${process.execPath}' '${command}' run --`
    const script = `printf '1\\n2\\n' | while read name; do ${sheepdogRun} echo "got $name"; done`
    expect((await run('sh', ['-c', script])).stdout).toBe('got 1\ngot 2\n')
  })

  it('gives the program a terminal with --pty: it does not buffer, and has a size', async () => {
    const python = 'import sys; print(sys.stdout.isatty()); print(1); print(2)'
    const args = ['run', '--pty', '--idle', '20s', '--', 'python3', '-c', python]
    expect(await sheepdog(args)).toEqual({ status: 0, stdout: 'True\r\n1\r\n2\r\n', stderr: '' })
    const size = await sheepdog(['run', '--pty', '--', 'stty', 'size'])
    expect(size.stdout).toBe('24 80\r\n')
    const ended = await sheepdog(['run', '--pty', '--idle', '300ms', '--', 'sleep', '60'])
    expect(ended.status).toBe(125)
  })

  it('passes on what is typed, and the size of our terminal', async () => {
    const words = [command, 'run', '--pty', ...sh('stty size; read word; echo "got $word"; exit 5')]
    const shell = spawn(process.execPath, words, { pty: { columns: 90, rows: 30 }, stdin: 'pipe' })
    const seen: string[] = []
    for await (const { text } of shell) {
      seen.push(text.trim())
      if (text.includes('30 90')) await shell.stdin.write('hello\r')
      if (text.includes('got')) await shell.stdin.end()
    }
    expect(seen).toEqual(['30 90', 'hello', 'got hello'])
    expect((await shell.result).exitCode).toBe(5)
  })

  it("leaves Ctrl-C to the program's terminal", async () => {
    const words = [
      command,
      'run',
      '--pty',
      ...sh('trap "echo caught; exit 7" INT; echo ready; while :; do sleep 0.05; done'),
    ]
    const shell = spawn(process.execPath, words, { pty: true, stdin: 'pipe' })
    const seen: string[] = []
    for await (const { text } of shell) {
      seen.push(text.trim())
      if (text.includes('ready')) await shell.stdin.write('\u0003')
    }
    expect(seen.join(' ')).toMatch(/^ready \^?C?\s?caught$|^ready \^Ccaught$/)
    expect((await shell.result).exitCode).toBe(7)
  })

  it.each([
    [
      '124 when it takes too long',
      ['--timeout', '300ms', ...sh('while :; do echo x; sleep 0.05; done')],
      124,
      /^sheepdog: sh was still running after 300 ms and was stopped \(--timeout/,
    ],
    [
      '125 when it is silent',
      ['--idle', '300ms', ...sh('sleep 60')],
      125,
      /^sheepdog: sh was silent for 300 ms and was killed \(--idle sets the limit\); it has printed nothing: .*--pty gives them one.*\n$/,
    ],
    ['126 when it may not be executed', ['--', plainFile], 126, /^sheepdog: .*plain-file.*\n$/],
    [
      '127 when there is none',
      ['--', 'no-such-program-anywhere'],
      127,
      /^sheepdog: no-such-program-anywhere: .*\n$/,
    ],
    [
      '128+N when a signal ends it',
      sh('kill -SEGV $$'),
      139,
      /^sheepdog: sh was ended by SIGSEGV after .*\n$/,
    ],
  ])('ends with %s', async (_, args, status, message) => {
    const ending = await sheepdog(['run', ...args])
    expect(ending.stderr).toMatch(message)
    expect(ending.status).toBe(status)
  })

  it('never ends it when the limits are off', async () => {
    const args = ['run', '--idle', 'off', '--timeout', 'off', ...sh('sleep 0.7; echo done')]
    expect(await sheepdog(args, { SHEEPDOG_IDLE_SECONDS: '0.2' })).toMatchObject({
      status: 0,
      stdout: 'done\n',
    })
  })

  it('says when something was left behind and had to be killed', async () => {
    const ending = await sheepdog(['run', ...sh('setsid sleep 60 > /dev/null 2>&1 & echo $!')])
    expect(ending).toMatchObject({
      status: 0,
      stderr: 'sheepdog: sh exited with 0; 1 process that it left behind was killed\n',
    })
    expect(isAlive(Number(ending.stdout))).toBe(false)
  })

  it('prints one JSON line for each line, and one for the result', async () => {
    const { status, stdout, stderr } = await sheepdog([
      'run',
      '--json',
      ...sh('echo \'a "b"\'; sleep 0.2; echo c >&2; exit 4'),
    ])
    const records = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(records.slice(0, 2)).toEqual([
      { type: 'line', stream: 'stdout', text: 'a "b"' },
      { type: 'line', stream: 'stderr', text: 'c' },
    ])
    expect(records[2]).toMatchObject({
      type: 'result',
      exitStatus: 4,
      exitCode: 4,
      signal: null,
      stdoutBytes: 6,
      stderrBytes: 2,
    })
    expect(records[2]).not.toHaveProperty('stdout')
    expect({ status, stderr, count: records.length }).toEqual({ status: 4, stderr: '', count: 3 })
  })

  it('tells in JSON why a program was stopped, or never started', async () => {
    const idle = await sheepdog(['run', '--json', '--idle', '0.3', ...sh('echo x; sleep 60')])
    expect(JSON.parse(idle.stdout.trimEnd().split('\n').at(-1)!)).toMatchObject({
      type: 'result',
      exitStatus: 125,
      error: { code: 'PROCESS_IDLE' },
      signal: 'SIGKILL',
      stdoutBytes: 2,
    })
    const missing = await sheepdog(['run', '--json', '--', 'no-such-program-anywhere'])
    expect(JSON.parse(missing.stdout)).toMatchObject({
      type: 'result',
      exitStatus: 127,
      error: { code: 'PROCESS_NOT_FOUND' },
    })
  })

  it.each([
    // A shell sees 130, and that it was interrupted: its loop stops.
    ['SIGINT', { status: null, signal: 'SIGINT' }],
    ['SIGTERM', { status: 143, signal: null }],
    ['SIGHUP', { status: 129, signal: null }],
    ['SIGQUIT', { status: 131, signal: null }],
  ] as const)('ends the whole tree at %s and reports', async (signal, ending) => {
    const run = started(['run', ...sh('echo $$; setsid sh -c "echo \\$\\$ ready; exec sleep 60" & wait')])
    const pids = (await run.printed(/ready/)).split(/\s/).slice(0, 2).map(Number)
    run.child.kill(signal)
    expect(await run.exit).toEqual(ending)
    expect(await run.stderr).toMatch(
      new RegExp(
        `^sheepdog: sh was stopped by ${signal} after .*1 process that it left behind was killed\n$`,
      ),
    )
    expect(pids.map(isAlive)).toEqual([false, false])
  })

  it('kills at once at the second Ctrl-C', async () => {
    // It counts what it does: a busy machine slows it down as well.
    const counting = 'trap "echo asked" TERM; echo ready; while :; do sleep 0.05; echo tick; done'
    const run = started(['run', ...sh(counting)])
    await run.printed(/ready/)
    run.child.kill('SIGINT')
    await run.printed(/asked/)
    run.child.kill('SIGINT')
    expect(await run.exit).toEqual({ status: null, signal: 'SIGINT' })
    const ticks = (await run.rest()).split('asked')[1]!.match(/tick/g) ?? []
    expect(ticks.length, 'the grace of 2 s has forty of them').toBeLessThan(30)
  })

  it('stops the loop of a shell that is interrupted with it', async () => {
    // bash waits for what it runs in the foreground, then looks whether that died of the signal: it goes on when it did not.
    const script = `for i in 1 2; do '${process.execPath}' '${command}' run -- sh -c 'echo begun; exec sleep 60'; done; echo after`
    const shell = spawnChild('bash', ['-c', script], { detached: true, stdio: ['ignore', 'pipe', 'ignore'] })
    let printed = ''
    shell.stdout.setEncoding('utf8').on('data', (text: string) => {
      // A terminal sends Ctrl-C to all of its foreground.
      if (printed === '') process.kill(-shell.pid!, 'SIGINT')
      printed += text
    })
    await once(shell, 'close')
    expect(printed).toBe('begun\n')
  })

  it('works where it is told, with the environment that it is told', async () => {
    const args = ['--cwd', folder, '--env', 'A=1=2', '--env', 'B=', ...sh('pwd; echo "$A,${B-unset}"')]
    expect(await sheepdog(['run', ...args])).toEqual({ status: 0, stdout: `${folder}\n1=2,\n`, stderr: '' })
    const wrong = await sheepdog(['run', '--env', 'A', ...sh('true')])
    expect(wrong).toMatchObject({
      status: 2,
      stderr: 'sheepdog run: --env: expected NAME=VALUE, got "A"\n',
    })
  })

  it('says nothing of its own when it is to be quiet', async () => {
    const ending = await sheepdog(['run', '-q', '--idle', '300ms', ...sh('echo out; echo err >&2; sleep 60')])
    expect(ending).toEqual({ status: 125, stdout: 'out\n', stderr: 'err\n' })
  })

  it('limits memory, or starts nothing where that can not be done', async () => {
    const { status, stdout, stderr } = await sheepdog(['run', '--memory', '512M', ...sh('echo ran')])
    if (status === 0) expect(stdout).toBe('ran\n')
    else
      expect({ status, stdout, stderr }).toEqual({
        status: 1,
        stdout: '',
        stderr: expect.stringMatching(/memoryMaxBytes|cgroup/),
      })
    const wrong = await sheepdog(['run', '--memory', 'lots', ...sh('echo ran')])
    expect(wrong.stderr).toMatch(/^sheepdog run: --memory: expected a size such as 512M/)
  })

  it('ends quietly, with the program, when nobody reads any more', async () => {
    const { stdout } = await run('bash', [
      '-c',
      `'${process.execPath}' '${command}' run -- yes 2>&1 | head -2; echo "\${PIPESTATUS[0]}"`,
    ])
    expect(stdout).toBe('y\ny\n141\n')
  })

  it.runIf(process.platform === 'linux')('says when its output can not be written', async () => {
    const { stderr, exitCode } = await run('sh', [
      '-c',
      `'${process.execPath}' '${command}' run -- yes > /dev/full`,
    ])
    expect(stderr).toBe('sheepdog: output could not be written (ENOSPC): yes was stopped\n')
    expect(exitCode).toBe(1)
  })

  it('lets a slow reader slow the program, and does not take that for silence', async () => {
    const progress = join(folder, 'progress')
    const program = `const fs = require('fs'); const block = Buffer.alloc(65536, 'x'.repeat(63) + '\\n')
      for (let i = 0; i < 400; i++) { fs.writeSync(1, block); fs.appendFileSync(${JSON.stringify(progress)}, '.') }`
    const run = started(['run', '--idle', '700ms', '--', process.execPath, '-e', program])
    const size = () => statSync(progress, { throwIfNoEntry: false })?.size ?? 0
    // Standing still for longer than the idle limit.
    for (let still = 0, last = -1; still < 10; still = size() > 0 && size() === last ? still + 1 : 0) {
      last = size()
      await sleep(100)
    }
    expect(size(), 'blocks of 64 KiB').toBeLessThan(60)
    let bytes = 0
    for await (const chunk of run.child.stdout) bytes += chunk.length
    expect(bytes).toBe(400 * 65536)
    expect(await run.exit).toEqual({ status: 0, signal: null })
    expect(readFileSync(progress, 'utf8')).toHaveLength(400)
  })

  it('ends at SIGTERM although nobody reads what it prints', async () => {
    const run = started(['run', '--', 'yes'])
    await run.printed(/y/)
    run.child.stdout.pause()
    await sleep(300)
    run.child.kill('SIGTERM')
    expect(await run.exit).toEqual({ status: 143, signal: null })
  })

  it.runIf(process.platform === 'linux')(
    'stays small when a program that ignores SIGTERM prints on and nobody reads',
    async () => {
      const program =
        "trap '' TERM INT; echo up; while :; do head -c 1000000 /dev/zero | tr '\\0' '\\n'; done"
      const run = started(['run', '--', 'sh', '-c', program])
      await run.printed(/up/)
      run.child.stdout.pause()
      const peakMb = () =>
        Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${run.child.pid}/status`, 'utf8'))![1]) / 1024
      const before = peakMb()
      let peak = before
      const looking = setInterval(() => {
        try {
          peak = Math.max(peak, peakMb())
        } catch {
          // It has ended.
        }
      }, 50)
      run.child.kill('SIGTERM')
      expect((await run.exit).status).toBe(143)
      clearInterval(looking)
      expect(peak - before, 'MB').toBeLessThan(150)
    },
  )
})
