// The runtime goes with its host, however the host goes.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, it, onTestFinished } from 'vitest'
import { isAlive } from './alive'

function host(...args: string[]) {
  const child = spawn(process.execPath, [join(__dirname, '..', 'fixtures', 'copilot', 'host.mjs'), ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return { child, line: async () => (await lines.next()).value as string }
}

it('SIGKILL of the host takes the runtime with it', async () => {
  const { child, line } = host()
  const pid = Number(await line())
  expect(isAlive(pid)).toBe(true)
  child.kill('SIGKILL')
  await expect.poll(() => isAlive(pid), { timeout: 30_000 }).toBe(false)
})

it('a worker thread that is terminated takes its runtime with it', async () => {
  const { child, line } = host('worker')
  const pid = Number(await line())
  child.stdin.write('now\n')
  expect(await line()).toBe('terminated')
  await expect.poll(() => isAlive(pid), { timeout: 30_000 }).toBe(false)
})
