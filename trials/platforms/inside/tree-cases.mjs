// The end of a program's whole tree.
import { spawn as plain } from 'node:child_process'
import { join } from 'node:path'
import { alive, daemons, equal, listTrees, mark, refusal, sh, spawn, until } from './tools.mjs'

export const treeCases = {
  async 'daemons are killed'() {
    const tag = mark()
    const { straysKilled } = await sh(`${daemons(tag)} sleep 0.5`)
    equal(alive(tag), [])
    // Three that sleep, and the shell of two of them.
    if (straysKilled !== 4) throw new Error(`${straysKilled} were killed`)
    return `${straysKilled} killed`
  },
  async 'a silent program is killed'() {
    const tag = mark()
    const error = await refusal(sh(`${daemons(tag)} sleep ${tag}`, { idleTimeoutMs: 1000 }))
    equal([error.code, alive(tag)], ['PROCESS_IDLE', []])
  },
  async 'a slow program is stopped'() {
    const tag = mark()
    const endless = sh(`trap '' TERM; sleep ${tag}`, { timeoutMs: 1000, killGraceMs: 200 })
    equal([(await refusal(endless)).code, alive(tag)], ['PROCESS_TIMED_OUT', []])
  },
  async abort() {
    const tag = mark()
    const controller = new AbortController()
    const child = spawn('sh', ['-c', `${daemons(tag)} sleep ${tag}`], { signal: controller.signal })
    await child.started
    controller.abort()
    equal([(await refusal(child.result)).code, alive(tag)], ['PROCESS_ABORTED', []])
  },
  async 'nothing survives a killed host'() {
    const tag = mark()
    const host = plain(process.execPath, [join(import.meta.dirname, 'host.mjs'), tag], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await new Promise((resolve) => host.stdout.once('data', resolve))
    const before = await until(() => {
      const pids = alive(tag, 'sleep')
      return pids.length === 4 && pids
    })
    host.kill('SIGKILL')
    await until(() => alive(tag, 'sleep').length === 0)
    return `${before.length} before, 0 after`
  },
  async ps() {
    const child = spawn('sleep', ['60'], { name: 'a name' })
    await child.started
    // The name is written to disk beside the start.
    await until(async () => (await listTrees()).some(({ name }) => name === 'a name'))
    child.kill('SIGKILL')
    await refusal(child.result)
  },
}
