// withRetry: any operation, repeated by the same rules.
import { describe, expect, it } from 'vitest'
import { withRetry } from '../entries/model.js'
import { quick } from './scripted-model'

describe('withRetry', () => {
  const failing = (times: number, error: unknown) => {
    const attempts: number[] = []
    const operation = async (attempt: number) => {
      attempts.push(attempt)
      if (attempts.length <= times) throw error
      return 'done'
    }
    return { attempts, operation }
  }

  it('repeats what may pass, and tells the attempt', async () => {
    const { attempts, operation } = failing(2, { status: 503 })
    expect(await withRetry(operation, quick)).toBe('done')
    expect(attempts).toEqual([1, 2, 3])
  })

  it('rejects with the last error as it was', async () => {
    const error = new Error('HTTP 500')
    const { attempts, operation } = failing(9, error)
    await expect(withRetry(operation, { ...quick, attempts: 4 })).rejects.toBe(error)
    expect(attempts).toHaveLength(4)
    process.env.SHEEPDOG_AI_TIMEOUT_RETRIES = '1'
    await expect(withRetry(operation, quick)).rejects.toBe(error)
    expect(attempts).toHaveLength(6)
  })

  it('does not repeat what is for good, unless told so', async () => {
    const { attempts, operation } = failing(1, { status: 401 })
    await expect(withRetry(operation, quick)).rejects.toEqual({ status: 401 })
    expect(attempts).toEqual([1])
    const other = failing(1, 'something odd')
    expect(
      await withRetry(other.operation, { ...quick, retryable: (error) => error === 'something odd' }),
    ).toBe('done')
    const never = failing(1, { status: 503 })
    await expect(withRetry(never.operation, { ...quick, retryable: () => false })).rejects.toEqual({
      status: 503,
    })
  })

  it('honours Retry-After, whatever the longest delay of its own', async () => {
    const { operation } = failing(1, { status: 429, headers: new Headers({ 'retry-after': '0.4' }) })
    const started = performance.now()
    await withRetry(operation, quick)
    expect(performance.now() - started).toBeGreaterThanOrEqual(390)
    const { operation: patient } = failing(1, { status: 429, headers: { 'Retry-After': '0.4' } })
    const again = performance.now()
    await withRetry(patient, { maxDelayMs: 20 })
    expect(performance.now() - again).toBeGreaterThanOrEqual(390)
  })

  it('does not repeat what asks for more than 5 minutes', async () => {
    const error = { status: 429, headers: { 'Retry-After': '301' } }
    const { attempts, operation } = failing(1, error)
    await expect(withRetry(operation, { maxDelayMs: 20 })).rejects.toBe(error)
    await expect(withRetry(failing(1, error).operation, { retryable: () => true })).rejects.toBe(error)
    expect(attempts).toEqual([1])
  })

  it('waits between attempts however long the longest wait may be', async () => {
    const { operation } = failing(1, { status: 500 })
    const started = performance.now()
    await withRetry(operation, { baseDelayMs: 100, maxDelayMs: Number.MAX_VALUE })
    // Half of the wait is left to chance.
    expect(performance.now() - started).toBeGreaterThanOrEqual(49)
  })

  it('ends at once when aborted: before, within the operation, within the wait', async () => {
    const { attempts, operation } = failing(9, { status: 503 })
    const aborted = { code: 'MODEL_ABORTED' }
    await expect(withRetry(operation, { signal: AbortSignal.abort() })).rejects.toMatchObject({
      ...aborted,
      attempts: 0,
    })
    expect(attempts).toEqual([])
    const within = new AbortController()
    const hanging = withRetry(() => new Promise(() => {}), { signal: within.signal })
    within.abort('enough')
    await expect(hanging).rejects.toMatchObject({ ...aborted, attempts: 1, cause: 'enough' })
    const waiting = new AbortController()
    setTimeout(() => waiting.abort(), 30)
    const patient = withRetry(operation, { baseDelayMs: 30_000, signal: waiting.signal })
    await expect(patient).rejects.toMatchObject({ ...aborted, attempts: 1 })
  })

  it('never throws synchronously', async () => {
    await expect(withRetry('x' as never)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
    await expect(withRetry(async () => 1, { tries: 1 } as never)).rejects.toMatchObject({
      code: 'INVALID_OPTION',
    })
    const broken = () => {
      throw new Error('HTTP 401')
    }
    await expect(withRetry(broken, quick)).rejects.toThrow('HTTP 401')
  })
})
