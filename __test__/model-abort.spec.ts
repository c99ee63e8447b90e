// Who ends a model call, and what can not be asked.
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { describe, expect, it } from 'vitest'
import { complete, type CompleteOptions } from '../entries/model.js'
import { failure, messages, modelServer, scripted } from './scripted-model'

describe('abort', () => {
  it('before the call: nothing is asked', async () => {
    const { call, requests } = scripted('text=never', { signal: AbortSignal.abort('enough') })
    expect(await failure(call)).toMatchObject({ code: 'MODEL_ABORTED', attempts: 0, cause: 'enough' })
    expect(requests()).toHaveLength(0)
  })

  it.each(['silent', 'stall'])(
    'in a %s answer: the socket is closed, nothing is asked again',
    async (step) => {
      const controller = new AbortController()
      let heard = 0
      controller.signal.onabort = () => heard++
      const { call, run, requests } = scripted(step, { signal: controller.signal })
      const request = await modelServer().next((one) => one.run === run)
      controller.abort()
      expect(await failure(call)).toMatchObject({ code: 'MODEL_ABORTED', attempts: 1 })
      expect(await request.closed).toBe('hung up')
      expect(requests()).toHaveLength(1)
      expect(heard).toBe(1)
    },
  )

  it('between two attempts: the wait ends', async () => {
    const controller = new AbortController()
    const retry = { baseDelayMs: 60_000, maxDelayMs: 60_000 }
    const { call, run } = scripted('status=500', { signal: controller.signal, retry })
    const request = await modelServer().next((one) => one.run === run)
    await request.closed
    setTimeout(() => controller.abort(), 50)
    expect(await failure(call)).toMatchObject({ code: 'MODEL_ABORTED', attempts: 1 })
  })
})

it('a call ends with the worker thread that made it', async () => {
  const baseUrl = `${modelServer().urlFor('every;;stall')}/v1`
  const options = { baseUrl, model: 'm', messages, idleTimeoutMs: 600_000, timeoutMs: 600_000 }
  const script = `require(${JSON.stringify(join(__dirname, '../entries/model.js'))}).complete(${JSON.stringify(options)}).catch(() => {})`
  const run = baseUrl.split('/').at(-2)
  const worker = new Worker(script, { eval: true })
  const request = await modelServer().next((request) => request.run === run)
  await worker.terminate()
  expect(await request.closed).toBe('hung up')
})

describe('wrong options', () => {
  const good = { baseUrl: 'http://127.0.0.1:1', model: 'm', messages }
  it.each([
    ['options: ', undefined],
    ['baseUrl: expected a string, got undefined', { ...good, baseUrl: undefined }],
    ['baseUrl: ', { ...good, baseUrl: 'nonsense' }],
    ['baseUrl: ', { ...good, baseUrl: 'http://' }],
    ['model: ', { ...good, model: '' }],
    ['messages: expected an array of messages, got "hi"', { ...good, messages: 'hi' }],
    ['messages: expected at least one message', { ...good, messages: [] }],
    ['messages[0]: expected an object, got 1', { ...good, messages: [1] }],
    ['messages: cannot be written as JSON', { ...good, messages: [{ content: 1n }] }],
    ['tools: ', { ...good, tools: {} }],
    ['schema: invalid JSON Schema', { ...good, schema: { type: 'nonsense' } }],
    ['schema: expected an object, got "object"', { ...good, schema: 'object' }],
    ['timeoutMs: expected a number of milliseconds, got "5s"', { ...good, timeoutMs: '5s' }],
    ['idleTimeoutMs: ', { ...good, idleTimeoutMs: NaN }],
    ['retry.attempts: expected an integer >= 1, got 0', { ...good, retry: { attempts: 0 } }],
    ['retry.delay: no such option', { ...good, retry: { delay: 1 } }],
    ['headers.a: expected a string, got 1', { ...good, headers: { a: 1 } }],
    ['headers: expected an object of names and values', { ...good, headers: new Map() as any }],
    ['headers.a b: ', { ...good, headers: { 'a b': 'x' } }],
    ['signal: ', { ...good, signal: {} }],
    ['baseURL: no such option; did you mean baseUrl?', { ...good, baseURL: 'x' }],
  ])('%s', async (message, options) => {
    const error = await failure(complete(options as CompleteOptions))
    expect(error.code).toBe('INVALID_OPTION')
    expect(error.message.startsWith(message), error.message).toBe(true)
  })
})
