import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { Harness, run, sandboxSupport, spawn } from '../index.js'
import { sheepdog } from './cli-command'

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'sheepdog-sandbox-')))
afterAll(() => rmSync(folder, { recursive: true }))

const sh = (script: string, sandbox: object) => run('sh', ['-c', script], { cwd: folder, sandbox })

describe('sandbox', () => {
  it('lets nothing be written by default', async () => {
    const { exitCode, stderr } = await sh('echo x > /dev/null && echo x > nothing', {})
    expect(exitCode).not.toBe(0)
    expect(stderr).toContain('nothing')
    expect(existsSync(join(folder, 'nothing'))).toBe(false)
  })

  it('holds for what the program leaves behind, sessions of their own included', async () => {
    await sh('setsid sh -c "echo x > outlived" & wait', {})
    expect(existsSync(join(folder, 'outlived'))).toBe(false)
  })

  it('lets be written what it lists, relative to the working directory', async () => {
    expect((await sh('mkdir made && echo x > made/file && mv made moved', { write: ['.'] })).stderr).toBe('')
    expect(existsSync(join(folder, 'moved', 'file'))).toBe(true)
  })

  it.each([
    ['none', /EACCES/],
    [{ ports: [1] }, /EACCES/],
    ['all', /connected/],
  ])('network %j', async (network, expected) => {
    const server = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => server.once('listening', resolve))
    const { port } = server.address() as { port: number }
    const script = `require('net').connect(${port}, '127.0.0.1', () => { console.log('connected'); process.exit() }).on('error', (e) => console.log(e.code))`
    const tried = run(process.execPath, ['-e', script], { sandbox: { network } as object })
    if (typeof network === 'object' && !sandboxSupport().holds.includes('ports'))
      await expect(tried).rejects.toMatchObject({ code: 'SANDBOX_UNAVAILABLE' })
    else expect((await tried).stdout).toMatch(expected)
    server.close()
  })

  it('says what held it, and what this machine could hold', async () => {
    const support = sandboxSupport()
    expect(support.landlock).toBeGreaterThan(0)
    expect(support.missing.length > 0).toBe(support.landlock < 6)
    expect(support.network).toBe(support.landlock > 0 && support.seccompNotify)
    const { sandbox } = await sh('true', { read: ['/'], network: 'none' })
    expect(sandbox!.landlock).toBe(support.landlock)
    const more = support.landlock < 4 ? ['hosts'] : ['hosts', 'ports']
    expect([...sandbox!.holds, ...more].sort()).toEqual([...support.holds].sort())
    expect((await sh('true', {})).sandbox!.holds).not.toContain('reads')
    expect(await run('true')).not.toHaveProperty('sandbox')
  })

  it('tells which files it changed that run later, outside of it', async () => {
    const attack =
      'mkdir -p .git/hooks && echo evil > .git/hooks/pre-commit && echo x > harmless && echo y > mine.conf'
    const first = await sh(attack, { write: ['.'] })
    expect(first.sandbox!.changed).toEqual([join(folder, '.git/hooks/pre-commit')])
    expect((await sh('true', { write: ['.'] })).sandbox).not.toHaveProperty('changed')
    const own = await sh('rm mine.conf', { write: ['.'], protect: { names: ['mine.conf'], how: 'report' } })
    expect(own.sandbox!.changed).toEqual([join(folder, 'mine.conf')])
    expect(own.sandbox).not.toHaveProperty('restored')
  })

  it('puts back what runs later, where it is asked to, however the run ended', async () => {
    const hook = join(folder, '.git/hooks/pre-commit')
    mkdirSync(dirname(hook), { recursive: true })
    writeFileSync(hook, 'mine')
    const attack = 'echo evil > .git/hooks/pre-commit; echo evil > .envrc; echo x > kept'
    const { sandbox } = await sh(attack, { write: ['.'], protect: 'restore' })
    expect(sandbox!.changed).toEqual([join(folder, '.envrc'), hook])
    expect(sandbox!.restored).toEqual(sandbox!.changed)
    expect(readFileSync(hook, 'utf8')).toBe('mine')
    expect([existsSync(join(folder, '.envrc')), existsSync(join(folder, 'kept'))]).toEqual([false, true])
    const child = spawn('sh', ['-c', `${attack}; echo ready; sleep 60`], {
      cwd: folder,
      sandbox: { write: ['.'], protect: 'restore' },
    })
    const reading = async () => {
      for await (const { text } of child.lines()) if (text === 'ready') child.kill().catch(() => {})
    }
    await expect(reading()).rejects.toThrow('stopped by kill()')
    await child.result.catch(() => {})
    expect(readFileSync(hook, 'utf8')).toBe('mine')
    rmSync(join(folder, '.git'), { recursive: true })
  })

  it('starts nothing where protected files must not change at all, which no system holds', async () => {
    for (const protect of ['enforce', { names: ['x'], how: 'enforce' }] as const) {
      const failure = run('true', [], { sandbox: { protect } })
      await expect(failure).rejects.toMatchObject({ code: 'SANDBOX_UNAVAILABLE' })
      await expect(failure).rejects.toThrow('use "restore"')
    }
  })

  it('starts nothing where the kernel has less than is required', async () => {
    const { landlock } = sandboxSupport()
    expect((await sh('true', { require: { landlock } })).exitCode).toBe(0)
    const failure = sh('echo x > required', { write: ['.'], require: { landlock: landlock + 1 } })
    await expect(failure).rejects.toMatchObject({ code: 'SANDBOX_UNAVAILABLE' })
    await expect(failure).rejects.toThrow(`version ${landlock + 1} of Landlock`)
    expect(existsSync(join(folder, 'required'))).toBe(false)
  })

  it.each(['plan', 'edit'] as const)(
    'no agent at "%s" has a command without a name in `allow`',
    async (permission) => {
      const harness = new Harness({ provider: 'codex', binary: 'false' })
      const failure = harness.open({ permission, allow: [''] })
      await expect(failure).rejects.toMatchObject({ code: 'INVALID_OPTION' })
      await expect(failure).rejects.toThrow('allow[0]: expected a string that is not empty')
    },
  )

  it.each([
    ['workspce', 'sandbox: expected "workspace" or an object, got "workspce"'],
    [true, 'sandbox: expected "workspace" or an object, got true'],
    [{ writes: [] }, 'sandbox.writes: no such option; did you mean write?'],
    [{ write: '/tmp' }, 'sandbox.write: expected an array of strings, got "/tmp"'],
    [{ write: [''] }, 'sandbox.write[0]: expected a string that is not empty'],
    [{ require: { landlock: 0 } }, 'sandbox.require.landlock: expected an integer from 1'],
    [
      { protect: 'enforced' },
      'sandbox.protect: expected "report", "restore", "enforce" or { names: [...], how: "report" | "restore" | "enforce" }, got "enforced"',
    ],
    [
      { network: 'some' },
      'sandbox.network: expected "all", "none", { ports: [...] } or { hosts: [...] }, got "some"',
    ],
    [
      { network: { ports: [80, -1] } },
      'sandbox.network.ports[1]: expected an integer from 0 to 65535, got -1',
    ],
    [{ read: ['/no/such'] }, 'sandbox.read[0]: /no/such: No such file or directory'],
  ])('refuses %j by its path', async (sandbox, message) => {
    const failure = run('true', [], { sandbox: sandbox as object })
    await expect(failure).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await expect(failure).rejects.toThrow(message)
  })

  it.each(['../x', '/etc/x', 'a/../b', '.', 'a//b'])('refuses to protect %j', async (name) => {
    const failure = run('true', [], { sandbox: { protect: { names: ['ok/', name], how: 'report' } } })
    const message = `sandbox.protect.names[1]: expected a path below the folders of \`write\`, got "${name}"`
    await expect(failure).rejects.toMatchObject({ code: 'INVALID_OPTION', message })
  })

  it('starts nothing where it can not be held', async () => {
    const child = spawn('sh', ['-c', 'echo x > started'], { cwd: folder, sandbox: {}, containment: 'group' })
    await expect(child.result).rejects.toMatchObject({ code: 'SANDBOX_UNAVAILABLE' })
    expect(existsSync(join(folder, 'started'))).toBe(false)
  })

  it('is there on the command line', async () => {
    const inside = ['run', '--write', folder, '--', 'sh', '-c']
    expect((await sheepdog([...inside, `echo x > ${folder}/by-command`])).status).toBe(0)
    expect((await sheepdog([...inside, `echo x > ${folder}/../by-command`])).status).not.toBe(0)
    const system = ['/usr', '/bin', '/lib', '/lib64', '/etc', '/proc', '/dev'].filter((path) =>
      existsSync(path),
    )
    const reading = ['run', ...system.flatMap((path) => ['--read', path])]
    expect((await sheepdog([...reading, '--', 'cat', '/etc/passwd'])).status).toBe(0)
    expect((await sheepdog([...reading, '--', 'cat', `${folder}/by-command`])).stderr).toContain(
      'Permission denied',
    )
    expect((await sheepdog(['run', '--network', 'https', '--', 'true'])).stderr).toContain(
      '--network: expected',
    )
  })
})

it.skipIf(sandboxSupport().landlock === 0)(
  'lets a pool of processes work where write has /dev/shm',
  async () => {
    const pool = `
from concurrent.futures import ProcessPoolExecutor
if __name__ == "__main__":
    with ProcessPoolExecutor(2) as pool: print(list(pool.map(abs, [-1, -2])))`
    const ends = await Promise.all(
      [['.'], ['.', '/dev/shm']].map((write) =>
        run('python3', ['-c', pool], { cwd: tmpdir(), sandbox: { write, network: 'none' } }),
      ),
    )
    expect(ends.map(({ stdout, exitCode }) => [stdout, exitCode])).toEqual([
      ['', 1],
      ['[1, 2]\n', 0],
    ])
  },
)
