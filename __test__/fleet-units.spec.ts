// The systemd units in examples/fleet: what they start exists, and systemd understands them.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'

const examples = join(__dirname, '../examples/fleet')
const units = ['nats-server.service', 'sheepdog-worker.service']
const hasSystemd = spawnSync('systemd-analyze', ['--version']).status === 0

describe('the units of the example', () => {
  it('start a command that is there, with options that it has', () => {
    const text = readFileSync(join(examples, 'sheepdog-worker.service'), 'utf8')
    const [, verb, rest] = /^ExecStart=\S+ sheepdog (\S+) (.*)$/m.exec(text)!
    const program = join(__dirname, '../cli/sheepdog.js')
    const { stdout, status } = spawnSync(process.execPath, [program, verb!, '--help'], { encoding: 'utf8' })
    expect(status).toBe(0)
    const options = rest!.match(/--[a-z-]+/g)!
    expect(options.length).toBeGreaterThan(0)
    for (const option of options) expect(stdout).toContain(`${option} `)
  })

  it.runIf(hasSystemd)('are what systemd understands', () => {
    const { stderr } = spawnSync(
      'systemd-analyze',
      ['verify', ...units.map((unit) => join(examples, unit))],
      {
        encoding: 'utf8',
      },
    )
    // Their programs need not be here.
    const faults = stderr
      .split('\n')
      .filter((line) => units.some((unit) => line.includes(unit)) && !line.includes('is not executable'))
    expect(faults).toEqual([])
  })
})
