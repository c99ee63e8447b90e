// What is typed into a program's terminal, by a terminal that is made up.
import { EventEmitter } from 'node:events'
import { expect, it, onTestFinished } from 'vitest'
import type { RunningProcess } from '../lib/index'
import { typeInto } from '../cli/terminal'

class MadeUpStdin extends EventEmitter {
  isTTY = true
  isRaw = false
  isRead = true
  setRawMode(raw: boolean) {
    this.isRaw = raw
    return this
  }
  pause() {
    this.isRead = false
    return this
  }
  resume() {
    this.isRead = true
    return this
  }
}

it('is not read any more when the last key is taken after the end', async () => {
  const own = Object.getOwnPropertyDescriptor(process, 'stdin')!
  const stdin = new MadeUpStdin()
  Object.defineProperty(process, 'stdin', { configurable: true, value: stdin })
  onTestFinished(() => void Object.defineProperty(process, 'stdin', own))
  const taken: (() => void)[] = []
  const write = () => new Promise<void>((resolve) => taken.push(resolve))
  const giveBack = typeInto({ stdin: { write } } as unknown as RunningProcess)
  stdin.emit('data', Buffer.from('x'))
  expect(stdin).toMatchObject({ isRaw: true, isRead: false })
  taken.shift()!()
  await Promise.resolve()
  expect(stdin.isRead).toBe(true)
  stdin.emit('data', Buffer.from('\u0003'))
  giveBack()
  taken.shift()!()
  await Promise.resolve()
  expect(stdin).toMatchObject({ isRaw: false, isRead: false })
})
