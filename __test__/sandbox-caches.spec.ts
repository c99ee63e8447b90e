// Tools in a sandbox, as docs/sandbox.md has them: caches, files and devices.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { run, sandboxSupport } from '..'

const temporary = () => realpathSync(mkdtempSync(join(tmpdir(), 'sandbox-caches-')))

const isThere = (program: string) => spawnSync(program, ['--version']).status === 0

/** Each makes something of local files alone, and writes to its cache. */
const tools = [
  { name: 'npm', args: ['install', './part'], variable: 'npm_config_cache', made: 'node_modules/part' },
  {
    name: 'pip',
    program: 'python3',
    args: [
      '-m',
      'pip',
      'install',
      '--no-index',
      '--no-deps',
      '--target',
      'out',
      './wheel-0.1-py3-none-any.whl',
    ],
    variable: 'PIP_CACHE_DIR',
    made: 'out/wheel.py',
  },
  { name: 'cargo', args: ['generate-lockfile'], variable: 'CARGO_HOME', made: 'Cargo.lock' },
].filter(({ name }) => isThere(name))

describe.runIf(sandboxSupport().landlock > 0)('tools in a sandbox', () => {
  it.each(tools)(
    'lets $name work with its cache below write',
    async ({ name, program = name, args, variable, made }) => {
      const folder = temporary()
      mkdirSync(join(folder, 'part'))
      writeFileSync(join(folder, 'package.json'), '{"name":"whole","version":"1.0.0"}')
      writeFileSync(join(folder, 'part/package.json'), '{"name":"part","version":"1.0.0"}')
      writeFileSync(
        join(folder, 'Cargo.toml'),
        '[package]\nname = "whole"\nversion = "0.1.0"\n[lib]\npath = "lib.rs"\n',
      )
      writeFileSync(join(folder, 'lib.rs'), '')
      if (name === 'pip')
        spawnSync(
          'python3',
          [
            '-c',
            `import zipfile
with zipfile.ZipFile('wheel-0.1-py3-none-any.whl', 'w') as z:
    z.writestr('wheel.py', 'x = 1')
    z.writestr('wheel-0.1.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: wheel\\nVersion: 0.1\\n')
    z.writestr('wheel-0.1.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    z.writestr('wheel-0.1.dist-info/RECORD', '')`,
          ],
          { cwd: folder },
        )
      const cache = join(folder, '.cache')
      mkdirSync(cache)
      const { stderr } = await run(program, args, {
        cwd: folder,
        env: { [variable]: cache, TMPDIR: folder },
        sandbox: { write: ['.'], network: 'none' },
      })
      expect(existsSync(join(folder, made)), stderr).toBe(true)
    },
  )

  it('writes a listed file in place, and needs its folder for a rename', async () => {
    const folder = temporary()
    writeFileSync(join(folder, 'f'), 'one\n')
    const sh = (script: string) =>
      run('sh', ['-c', script], { cwd: folder, sandbox: { write: ['f'] } }).then(
        ({ exitCode }) => exitCode,
        (error: { exitCode?: number }) => error.exitCode,
      )
    expect(await sh('echo two >> f')).toBe(0)
    expect(await sh('sed -i s/one/three/ f')).not.toBe(0)
    expect(await sh('rm f')).not.toBe(0)
    expect(readFileSync(join(folder, 'f'), 'utf8')).toBe('one\ntwo\n')
  })

  it('uses a device that is listed', async () => {
    // The random device takes ioctl(2), RNDGETENTCNT.
    const script =
      'import fcntl; f = open("/dev/urandom"); fcntl.ioctl(f, 0x80045200, b"0000"); print("used")'
    const used = (write: string[]) =>
      run('python3', ['-c', script], { cwd: temporary(), sandbox: { write } }).then(
        ({ stdout, stderr }) => stdout || stderr,
      )
    expect(await used(['.', '/dev/urandom'])).toBe('used\n')
    if (sandboxSupport().landlock >= 5) expect(await used(['.'])).toContain('Permission denied')
  })

  it.each(['/dev/stderr', '/dev/tty', '"$(tty)"'])('writes to its terminal by the name %s', async (name) => {
    const { stdout } = await run('bash', ['-c', `echo words > ${name}`], {
      cwd: temporary(),
      pty: true,
      sandbox: { write: ['.'] },
    })
    expect(stdout).toBe('words\r\n')
  })
})
