// classify: what an error of any origin is about.
import { describe, expect, it } from 'vitest'
import { SheepdogError } from '..'
import { classify } from '../entries/model.js'
import { failure, scripted } from './scripted-model'

describe('classify', () => {
  const refused = Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })
  const aggregate = new AggregateError([refused], '')
  class RateLimitError extends Error {}

  it.each<[string, unknown, object]>([
    [
      'fetch with a cause',
      new TypeError('fetch failed', { cause: Object.assign(new Error('read'), { code: 'ECONNRESET' }) }),
      { kind: 'network', retryable: true },
    ],
    [
      'fetch with many causes',
      new TypeError('fetch failed', { cause: aggregate }),
      { kind: 'network', retryable: true },
    ],
    ['fetch without a cause', new TypeError('fetch failed'), { kind: 'network', retryable: true }],
    [
      'undici',
      new TypeError('terminated', {
        cause: Object.assign(new Error('other side closed'), { code: 'UND_ERR_SOCKET' }),
      }),
      { kind: 'network', retryable: true },
    ],
    [
      'a certificate',
      new TypeError('fetch failed', { cause: Object.assign(new Error('x'), { code: 'CERT_HAS_EXPIRED' }) }),
      { kind: 'network', retryable: false },
    ],
    [
      'AbortError',
      new DOMException('This operation was aborted', 'AbortError'),
      { kind: 'aborted', retryable: false },
    ],
    [
      'TimeoutError',
      new DOMException('The operation was aborted due to timeout', 'TimeoutError'),
      { kind: 'timeout', retryable: true },
    ],
    [
      'openai style',
      Object.assign(new Error('429 slow'), { status: 429, headers: { 'retry-after': '2' }, code: null }),
      { kind: 'rate_limit', retryable: true, status: 429, retryAfterMs: 2000 },
    ],
    [
      'openai headers',
      { status: 503, headers: new Headers({ 'Retry-After-Ms': '150' }) },
      { kind: 'overloaded', retryable: true, status: 503, retryAfterMs: 150 },
    ],
    [
      'a date by the clock of its server',
      {
        status: 503,
        headers: { 'Retry-After': 'Sun, 06 Nov 1994 08:50:37 GMT', Date: 'Sun, 06 Nov 1994 08:49:37 GMT' },
      },
      { kind: 'overloaded', retryable: true, status: 503, retryAfterMs: 60_000 },
    ],
    [
      'axios style',
      Object.assign(new Error('Request failed with status code 401'), {
        code: 'ERR_BAD_REQUEST',
        response: { status: 401, headers: {} },
      }),
      { kind: 'auth', retryable: false, status: 401 },
    ],
    [
      'anthropic body',
      { error: { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } } },
      { kind: 'overloaded', retryable: true },
    ],
    [
      'gemini body',
      { error: { code: 429, status: 'RESOURCE_EXHAUSTED', message: 'quota' } },
      { kind: 'rate_limit', retryable: true, status: 429 },
    ],
    [
      'aws',
      { name: 'ThrottlingException', $metadata: { httpStatusCode: 429 } },
      { kind: 'rate_limit', retryable: true, status: 429 },
    ],
    ['a class name', new RateLimitError('slow'), { kind: 'rate_limit', retryable: true }],
    [
      'a context that is too long',
      { status: 400, code: 'context_length_exceeded' },
      { kind: 'context_length', retryable: false, status: 400 },
    ],
    ['a status as text', { statusCode: '502' }, { kind: 'server', retryable: true, status: 502 }],
    ['HTTP in words', new Error('HTTP 429'), { kind: 'rate_limit', retryable: true, status: 429 }],
    [
      'a status code in words',
      'Request failed with status code 503',
      { kind: 'overloaded', retryable: true, status: 503 },
    ],
    ['no status at all', new Error('gave up after 1500s and 500 ms'), { kind: 'unknown', retryable: false }],
    [
      'a status before words',
      { status: 400, message: 'timeout, HTTP 503' },
      { kind: 'invalid_request', retryable: false, status: 400 },
    ],
    [
      'our own',
      new SheepdogError('MODEL_TIMED_OUT', 'x', { attempts: 3 }),
      { kind: 'timeout', retryable: true },
    ],
    [
      'our own agent',
      new SheepdogError('AGENT_FAILED', 'x', { kind: 'quota' }),
      { kind: 'quota', retryable: false },
    ],
    ['our own abort', new SheepdogError('PROCESS_ABORTED', 'x'), { kind: 'aborted', retryable: false }],
    [
      'a wrong option',
      new SheepdogError('INVALID_OPTION', 'timeoutMs: x'),
      { kind: 'invalid_request', retryable: false },
    ],
    ['nothing', undefined, { kind: 'unknown', retryable: false }],
    ['a number', 503, { kind: 'overloaded', retryable: true, status: 503 }],
    ['a symbol', Symbol('x'), { kind: 'unknown', retryable: false }],
  ])('%s', (_, error, expected) => {
    expect(classify(error)).toEqual(expected)
  })

  it('takes errors that refer to themselves, and fields that throw', () => {
    const circle: any = new Error('socket hang up')
    circle.cause = circle
    expect(classify(circle)).toEqual({ kind: 'network', retryable: true })
    const hostile = new Proxy(
      {},
      {
        get: () => {
          throw new Error('no')
        },
      },
    )
    expect(classify(hostile)).toEqual({ kind: 'unknown', retryable: false })
  })

  it('reads what complete() rejects with', async () => {
    const error = await failure(scripted([{ status: 429, headers: { 'retry-after': '0' } }]).call)
    expect(classify(error)).toEqual({ kind: 'rate_limit', retryable: true, status: 429, retryAfterMs: 0 })
  })
})
