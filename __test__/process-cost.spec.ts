// What a start costs, in counts that a busy machine does not raise.
import { execFileSync } from 'node:child_process'
import { join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'

const root = resolve(__dirname, '..')

/** Runs a script in a host of its own, so that nothing else uses the addon's threads, and gives the JSON that it prints. */
function measured(script: string, flags: string[] = []): Record<string, number> {
  const whole = `
    import { readFileSync, readdirSync } from 'node:fs'
    import { getHeapStatistics } from 'node:v8'
    import { run, spawn } from ${JSON.stringify(join(root, 'index.js'))}
    /** Times that the threads of this name went to sleep. */
    const sleeps = (name) => readdirSync('/proc/self/task').reduce((sum, id) => {
      const status = readFileSync('/proc/self/task/' + id + '/status', 'utf8')
      return status.startsWith('Name:\\t' + name + '\\n') ? sum + Number(/\\nvoluntary_ctxt_switches:\\s*(\\d+)/.exec(status)[1]) : sum
    }, 0)
    /** Resident memory in kilobytes, without V8's objects. */
    const ours = () => Number(/RssAnon:\\s*(\\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))[1]) -
      getHeapStatistics().total_physical_size / 1024
    ${script}`
  return JSON.parse(execFileSync(process.execPath, [...flags, '--input-type=module', '-e', whole]).toString())
}

describe.skipIf(process.platform !== 'linux')('the cost of a start', () => {
  it('one hand-over to a blocking thread, and few wake-ups of the thread that watches', () => {
    const { work, watch } = measured(`
      for (let i = 0; i < 5; i++) await run('true')
      const before = { work: sleeps('sheepdog-work'), watch: sleeps('sheepdog') }
      for (let i = 0; i < 100; i++) await run('true')
      const cost = (name, at) => (sleeps(name) - at) / 100
      console.log(JSON.stringify({ work: cost('sheepdog-work', before.work), watch: cost('sheepdog', before.watch) }))`)
    // It waits for its next work, and for the guard to be executed.
    expect(work).toBeLessThanOrEqual(2.3)
    // The report of the start, the end of each pipe, the report of the end, the guard's end; and a clock now and then. The last two,
    // and the pipes, are mostly one.
    expect(watch).toBeLessThanOrEqual(5.2)
  })

  it('hardly any memory for a run that has ended, before V8 collects its object', () => {
    // Here V8 collects nothing between the two looks.
    const { kilobytes } = measured(
      `
      const many = (count) => Promise.all(Array.from({ length: 8 }, async () => { while (count-- > 0) await run('true') }))
      await many(200)
      const before = ours()
      await many(600)
      console.log(JSON.stringify({ kilobytes: (ours() - before) / 600 }))`,
      ['--min-semi-space-size=64', '--max-semi-space-size=64'],
    )
    // 1.4; 3.2 with all that a run held.
    expect(kilobytes).toBeLessThan(2.3)
  })

  it('the memory of many programs is given back when they have ended', () => {
    const { held, left } = measured(
      `
      for (let i = 0; i < 50; i++) await run('true')
      gc()
      const before = ours()
      const sleeping = Array.from({ length: 300 }, () => spawn('sleep', ['60']))
      await Promise.all(sleeping.map(({ started }) => started))
      const held = ours() - before
      await Promise.allSettled(sleeping.splice(0).map((one) => one.kill('SIGKILL')))
      let left = held
      // It is given back 2 and 4 s after their end.
      for (let look = 0; look < 15 && left > held / 6; look++) {
        await new Promise((done) => setTimeout(done, 500))
        gc()
        left = ours() - before
      }
      console.log(JSON.stringify({ held, left }))`,
      ['--expose-gc'],
    )
    // Less than a twentieth is left; a third while the environment did not forget them.
    expect(left).toBeLessThanOrEqual((held ?? 0) / 6)
  })

  it('three descriptors for each program that runs', () => {
    const { first, descriptors, after } = measured(`
      await run('true')
      const open = () => readdirSync('/proc/self/fd').length
      const before = open()
      const sleeping = [spawn('sleep', ['60'])]
      await sleeping[0].started
      const first = open() - before
      sleeping.push(...Array.from({ length: 20 }, () => spawn('sleep', ['60'])))
      await Promise.all(sleeping.map(({ started }) => started))
      const descriptors = (open() - before - first) / 20
      await Promise.allSettled(sleeping.map((one) => one.kill('SIGKILL')))
      console.log(JSON.stringify({ first, descriptors, after: open() - before }))`)
    // The lifeline, stdout and stderr.
    expect(descriptors).toBe(3)
    // With them the working folder, which all runs share.
    expect(first).toBe(4)
    expect(after).toBe(0)
  })
})
