// A run that was stopped, as its streams tell it: what was read comes first, and each listener hears of the end once.
import { createInterface } from 'node:readline'
import { finished, PassThrough, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { spawn } from '../index.js'
import { rejection } from './copilot/peer'

const timedOut = { code: 'PROCESS_TIMED_OUT' }
const printing = () =>
  spawn('sh', ['-c', 'for i in 1 2 3 4; do echo $i; sleep 0.03; done; exec sleep 60'], {
    timeoutMs: 500,
    killGraceMs: 20,
  })

it('what was read before the failure is delivered before it', async () => {
  const child = printing()
  let text = ''
  const stream = child.stdoutNode
  const failed = new Promise((resolve) => stream.on('error', resolve))
  stream.on('data', (chunk) => (text += String(chunk)))
  stream.read(0)
  stream.pause()
  expect(await rejection(child.result)).toMatchObject(timedOut)
  stream.resume()
  expect(await failed).toMatchObject(timedOut)
  expect(text).toBe('1\n2\n3\n4\n')
})

it('a slow reader gets the whole output, then the error', async () => {
  let read = ''
  const loop = async () => {
    for await (const chunk of printing().stdoutNode) {
      read += String(chunk)
      await sleep(150)
    }
  }
  let written = ''
  const slow = new Writable({
    highWaterMark: 1,
    write(chunk, _, done) {
      written += String(chunk)
      setTimeout(done, 150)
    },
  })
  const errors = await Promise.all([rejection(loop()), rejection(pipeline(printing().stdoutNode, slow))])
  expect(errors).toMatchObject([timedOut, timedOut])
  expect([read, written]).toEqual(['1\n2\n3\n4\n', '1\n2\n3\n4\n'])
})

it('a reader of lines beside others takes no error from them', async () => {
  const child = printing()
  const lines: string[] = []
  const reader = createInterface({ input: child.stdoutNode })
  const closed = new Promise((resolve) => reader.on('close', resolve))
  reader.on('line', (line) => lines.push(line))
  const heard: unknown[] = []
  const ends = [
    new Promise((resolve) => child.stdoutNode.on('error', (error) => resolve(heard.push(error)))),
    new Promise((resolve) => finished(child.stdoutNode, (error) => resolve(heard.push(error)))),
    rejection(pipeline(child.stdoutNode, new PassThrough().resume())).then((error) => heard.push(error)),
  ]
  await Promise.all([closed, ...ends])
  expect(heard).toMatchObject([timedOut, timedOut, timedOut])
  expect(lines).toEqual(['1', '2', '3', '4'])
})

it('saveOutput() that nobody awaits does not tell the error of the run again', async () => {
  const unhandled: unknown[] = []
  const onUnhandled = (error: unknown) => unhandled.push(error)
  process.on('unhandledRejection', onUnhandled)
  const child = printing()
  void child.saveOutput({ stdout: '/dev/null' })
  expect(await rejection(child.result)).toMatchObject(timedOut)
  await sleep(20)
  process.off('unhandledRejection', onUnhandled)
  expect(unhandled).toEqual([])
})
