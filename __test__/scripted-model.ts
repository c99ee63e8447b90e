// Model calls against the carried model server, counted by the requests that arrived.
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { startModelServer } from '../fixtures/model-server.mjs'
import { type ErrorCode, SheepdogError } from '..'
import { complete, type CompleteOptions } from '../entries/model.js'

let server: Awaited<ReturnType<typeof startModelServer>>
beforeAll(async () => {
  server = await startModelServer()
})
afterAll(() => server.close())
afterEach(() => {
  delete process.env.SHEEPDOG_AI_TIMEOUT_RETRIES
  delete process.env.AGENTFIELD_AI_TIMEOUT_RETRIES
})

export const modelServer = () => server
export const messages = [{ role: 'user', content: 'hi' }]
export const quick = { baseDelayMs: 1 }

/** A call of a server that plays the script, and the requests that arrived for it. */
export function scripted(script: string | object[], options: Partial<CompleteOptions> = {}) {
  const steps = typeof script === 'string' ? `every;;${script}` : [{ every: true }, ...script]
  const base = server.urlFor(steps)
  const run = base.split('/').at(-1)
  const call = complete({ baseUrl: `${base}/v1`, model: 'm', messages, retry: quick, ...options })
  return { call, run, requests: () => server.requests.filter((request) => request.run === run) }
}

export async function failure(
  promise: Promise<unknown>,
): Promise<Error & { code: ErrorCode; [fact: string]: any }> {
  const error = await promise.then(
    (value) => expect.fail(`resolved with ${JSON.stringify(value)}`),
    (error) => error,
  )
  expect(error).toBeInstanceOf(SheepdogError)
  return error
}
