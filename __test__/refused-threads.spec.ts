// A machine that gives no thread any more: what a library in the addon makes of that (a panic) settles the promise.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, it } from 'vitest'

const root = join(__dirname, '..')
// Root may have as many threads as it likes.
const user = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {}
const may = (command: string, ...args: string[]) =>
  spawnSync(command, args, { ...user, cwd: '/' }).status === 0
const isPossible = may('prlimit', '--version') && may('test', '-r', join(root, 'index.js'))

it.skipIf(!isPossible)(
  'names that can not be looked up for want of a thread are ADDON_FAULT, and runs say why',
  () => {
    const program = `
    const { execFileSync } = require('node:child_process')
    const { CopilotClient, RuntimeClient, RuntimeConnection, complete, run } = require(${JSON.stringify(join(root, 'index.js'))})
    execFileSync('prlimit', ['--nproc=1', '--pid', String(process.pid)])
    const connection = RuntimeConnection.forUri('nowhere.invalid:9')
    const model = { baseUrl: 'http://nowhere.invalid:9', model: 'm', messages: [{ role: 'user', content: 'x' }] }
    const calls = [
      complete({ ...model, retry: { attempts: 1 } }),
      RuntimeClient.connect('ws://nowhere.invalid:9'),
      new CopilotClient({ connection }).start(),
      run('true'),
    ]
    Promise.allSettled(calls).then((ends) => console.log(JSON.stringify(ends.map(({ reason }) => reason?.code))))`
    const { stdout, stderr } = spawnSync(process.execPath, ['-e', program], {
      ...user,
      cwd: '/',
      encoding: 'utf8',
      timeout: 25_000,
    })
    expect(JSON.parse(stdout || `"${stderr.length} bytes of stderr, no answer"`)).toEqual([
      'ADDON_FAULT',
      'ADDON_FAULT',
      'ADDON_FAULT',
      'PROCESS_SPAWN_FAILED',
    ])
  },
)
