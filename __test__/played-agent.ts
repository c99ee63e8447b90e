// A played agent: a harness whose CLI prints what a plan says, in the words of codex.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect } from 'vitest'
import { Harness, type ErrorCode, SheepdogError, type HarnessOptions } from '..'
import { scriptedAgent, type ScriptedStep } from '../entries/testing.js'

export const folder = mkdtempSync(join(tmpdir(), 'harness-spec-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

export const player = join(__dirname, '..', 'fixtures', 'bin', 'agent.mjs')
let counter = 0
/** A step of its own for each start: the first plan, then the second, and the last from then on. */
export const counting = (...plans: object[][]) => ({ count: join(folder, `starts-${counter++}`), plans })

/** A harness whose agent plays this plan. */
export function played(plan: object[], options: Partial<HarnessOptions> = {}): Harness {
  return new Harness({
    provider: 'codex',
    binary: ['node', player, JSON.stringify(plan)],
    cwd: folder,
    ...options,
  })
}

/** A harness whose agent does what a script says: for what no CLI has a part in. */
export function following(steps: ScriptedStep[], options: Partial<HarnessOptions> = {}): Harness {
  return new Harness({ provider: scriptedAgent(steps), cwd: folder, ...options })
}

export const session = { line: { type: 'thread.started', thread_id: 't-1' } }
export const done = {
  line: { type: 'turn.completed', usage: { input_tokens: 10, cached_input_tokens: 2, output_tokens: 3 } },
}
export const said = (text: string) => ({
  line: { type: 'item.completed', item: { id: 'm', type: 'agent_message', text } },
})
export const failed = (message: string) => ({ line: { type: 'turn.failed', error: { message } } })
export const command = {
  id: 'c',
  type: 'command_execution',
  command: 'ls',
  aggregated_output: '',
  exit_code: null,
  status: 'in_progress',
}
export const tool = { line: { type: 'item.started', item: command } }
export const answer = [session, said('Hello.'), done]

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

/** A step that prints these lines, more than an argument can hold. */
export function printed(...steps: { line: object }[]) {
  const file = join(folder, `lines-${counter++}`)
  writeFileSync(file, steps.map(({ line }) => `${JSON.stringify(line)}\n`).join(''))
  return { file }
}
