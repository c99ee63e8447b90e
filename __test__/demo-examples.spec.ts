import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { run } from '../index.js'

const folder = join(import.meta.dirname, '../examples')
const wanted: Record<string, RegExp> = {
  'abort.mjs':
    /^PROCESS_ABORTED because: no longer wanted; printed so far: begun\nPROCESS_ABORTED because: TimeoutError\nended by SIGTERM/,
  'agent-as-a-function.mjs': /^\[ 'flock\.txt' \] 1 tool call, 128 tokens\n$/,
  'agent-events.mjs':
    /^> command_execution \{ command: 'ls' \}\n< exit 0: flock\.txt\nThere is one file: flock\.txt\.\nthread-1 again: There is one file/,
  'coding-agent.mjs':
    /^tool bash: uname -s\n(Linux|Darwin)\nIt is a fine system, says the scripted model\.\nthe agent exited with 0/,
  'interactive.mjs': /^it says 42\nHello, Ada\.\n$/,
  'json-events.mjs': /^\{ type: 'step', .*\}\n\{ type: 'result', .*\}\n\d+ bytes were printed in \d+ ms\n$/,
  'many-at-once.mjs': /'hanging' │ 'PROCESS_IDLE' │ 'SIGKILL'/,
  'model-call.mjs': /^Border Collie, Kelpie, Puli\. \(2 attempts\)\n$/,
  'nothing-strays.mjs': /^done \{ straysKilled: 1, containment: '(guard|guard\+cgroup)' \}\n$/,
  'observe.mjs':
    /^turn start codex\ntool start command_execution \ntool end command_execution false\nturn end codex\n$/,
  'runtime.mjs':
    /^over there: out\nexit 3\nlet me see \.\.\.\nyou asked: What is here\?\n\{ confirmed: true, uploaded: 0, undelivered: \[\] \}\n$/,
  // Where the kernel can't hold it, the example says so.
  'sandbox.mjs': /^not there \[ 'inside\.txt' \]\n$|sandbox/,
  'streams.mjs': /^Ada\nBo\nCy\n\n3 lines\n$/,
  'watch-a-program.mjs': /^PROCESS_IDLE: .*\nit had printed: "working \.\.\.\\n"\n$/,
}

describe('the example', () => {
  const examples = readdirSync(folder).filter((name) => name.endsWith('.mjs'))
  it.each(examples)('%s runs as it stands', async (name) => {
    const { stdout, stderr, exitCode } = await run(process.execPath, [join(folder, name)])
    expect(stdout).toMatch(wanted[name]!)
    expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 })
  })

  it('is there for each of those tested', () => {
    expect(examples.sort()).toEqual(Object.keys(wanted))
  })
})
