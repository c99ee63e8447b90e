// A machine that gives no thread any more: every promise settles, with a code of its own kind.
import { spawnSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { checkoutFor } from '../fixtures/other-user.mjs'

// Root may have as many threads as it likes.
const root = checkoutFor(65534)
const user = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {}
const may = (command: string, ...args: string[]) =>
  spawnSync(command, args, { ...user, cwd: '/' }).status === 0
const isPossible = may('prlimit', '--version')

it.skipIf(!isPossible)(
  'what can not be looked up or started for want of a thread is an error of its own kind',
  () => {
    const program = `
    const { execFileSync } = require('node:child_process')
    const load = (name) => require(${JSON.stringify(root)} + '/' + name)
    const { run } = load('index.js')
    const { complete } = load('entries/model.js')
    const { RuntimeClient } = load('entries/runtime.js')
    const { CopilotClient, RuntimeConnection } = load('entries/copilot.js')
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
      'MODEL_UNREACHABLE',
      'RUNTIME_UNREACHABLE',
      'CONNECTION_LOST',
      'PROCESS_SPAWN_FAILED',
    ])
  },
)
