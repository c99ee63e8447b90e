import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { run } from '../index.js'

const folder = join(import.meta.dirname, '../examples')
const wanted: Record<string, RegExp> = {
  'abort.mjs':
    /^PROCESS_ABORTED because: no longer wanted; printed so far: begun\nPROCESS_ABORTED because: TimeoutError\nended by SIGTERM/,
  'coding-agent.mjs':
    /^tool bash: uname -s\n(Linux|Darwin)\nIt is a fine system, says the scripted model\.\nthe agent exited with 0/,
  'json-events.mjs': /^\{ type: 'step', .*\}\n\{ type: 'result', .*\}\n\d+ bytes were printed in \d+ ms\n$/,
  'many-at-once.mjs': /'hanging' │ 'PROCESS_IDLE' │ 'SIGKILL'/,
  'watch-a-program.mjs': /^PROCESS_IDLE: .*\nit had printed: "working \.\.\.\\n"\n$/,
}

describe('the example', () => {
  const examples = readdirSync(folder).filter((name) => name.endsWith('.mjs') && name in wanted)
  it.each(examples)('%s runs as it stands', { timeout: 90_000 }, async (name) => {
    const { stdout, stderr, exitCode } = await run(process.execPath, [join(folder, name)])
    expect(stdout).toMatch(wanted[name]!)
    expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 })
  })

  it('is there for each of those tested', () => {
    expect(examples.sort()).toEqual(Object.keys(wanted))
  })
})
