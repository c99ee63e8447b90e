// `sheepdog/testing`: what a script says is what a harness sees, without a CLI and a network.
import { existsSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { Budget, Harness, defineTool, sandboxSupport, type AgentErrorKind } from '..'
import { scriptedAgent } from '../entries/testing.js'
import { failure } from './played-agent'

const quick = { attempts: 2, baseDelayMs: 1, maxDelayMs: 1 }

describe('a turn of a scripted agent', () => {
  it('answers by the step that fits, each once', async () => {
    const agent = scriptedAgent([
      { on: /^deploy/i, say: 'Deployed.' },
      { on: 'tests', say: 'Two fail.', usage: { inputTokens: 7, outputTokens: 2 } },
      { say: 'Anything.' },
    ])
    const harness = new Harness({ provider: agent })
    const first = await harness.run('Which tests fail?')
    expect(first).toMatchObject({
      text: 'Two fail.',
      provider: 'scripted',
      usage: { inputTokens: 7, outputTokens: 2 },
    })
    expect((await harness.run('Which tests fail?')).text).toBe('Anything.')
    expect((await harness.run('Deploy it.', { permission: 'plan' })).text).toBe('Deployed.')
    const none = await failure(harness.run('More?'))
    expect(none.message).toContain('no step of the script fits this prompt: "More?"')
    expect(agent.prompts().map(({ step }) => step)).toEqual([1, 2, 0, -1])
  })

  it('is asked again for an answer that does not fit the schema', async () => {
    const agent = scriptedAgent([{ structured: { n: 'four' } }, { structured: { n: 4 } }])
    const schema = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] }
    expect((await new Harness({ provider: agent }).run('Count.', { schema })).structured).toEqual({ n: 4 })
    expect(agent.prompts()).toHaveLength(2)
    const wrong = scriptedAgent([{ say: 'no' }, { say: 'no' }])
    expect(await failure(new Harness({ provider: wrong }).run('Count.', { schema }))).toMatchObject({
      code: 'AGENT_SCHEMA_MISMATCH',
    })
  })

  it('resumes its sessions, and no other', async () => {
    const agent = scriptedAgent([{ say: 'one' }, { say: 'two' }])
    const harness = new Harness({ provider: agent })
    const { sessionId } = await harness.run('First.')
    expect(await harness.run('Second.', { resume: sessionId })).toMatchObject({ text: 'two', sessionId })
    expect(await failure(harness.run('Third.', { resume: 'other' }))).toMatchObject({
      code: 'AGENT_RESUME_FAILED',
    })
  })

  const kinds: Exclude<AgentErrorKind, 'max_turns'>[] = [
    'auth',
    'rate_limit',
    'quota',
    'overloaded',
    'context_length',
    'invalid_request',
    'network',
    'server',
    'permission',
    'unknown',
  ]
  it.each(kinds)('fails with the kind %s', async (fail) => {
    const agent = scriptedAgent([{ fail }])
    const error = await failure(new Harness({ provider: agent }).run('Hi.', { retry: { attempts: 1 } }))
    expect(error).toMatchObject({ code: 'AGENT_FAILED', kind: fail })
  })

  it('is tried again after a passing failure, and waits for the end of a limit', async () => {
    const passing = scriptedAgent([{ fail: 'overloaded' }, { say: 'Now.' }])
    expect(await new Harness({ provider: passing }).run('Hi.', { retry: quick })).toMatchObject({
      text: 'Now.',
      attempts: 2,
    })
    const limited = scriptedAgent([{ limit: { resetsInMs: 500 } }, { say: 'Back.' }])
    const retry = { waitForResetMs: 60_000 }
    expect((await new Harness({ provider: limited }).run('Hi.', { retry })).text).toBe('Back.')
  })

  it('spends a budget', async () => {
    const steps = [400, 900, 1].map((inputTokens) => ({ say: 'x', usage: { inputTokens, outputTokens: 10 } }))
    const harness = new Harness({ provider: scriptedAgent(steps), budget: new Budget({ maxTokens: 1000 }) })
    expect((await harness.run('One.')).usage?.inputTokens).toBe(400)
    for (const usedTokens of [1320, 1320])
      expect(await failure(harness.run('Next.'))).toMatchObject({ code: 'AGENT_BUDGET', usedTokens })
  })

  it('falls silent', async () => {
    const agent = scriptedAgent([{ stallMs: 60_000, say: 'late' }])
    expect(await failure(new Harness({ provider: agent }).run('Hi.', { idleTimeoutMs: 500 }))).toMatchObject({
      code: 'AGENT_IDLE',
    })
  })

  it.runIf(sandboxSupport().landlock > 0)('works in a sandbox', async () => {
    const agent = scriptedAgent([{ say: 'inside' }])
    expect((await new Harness({ provider: agent }).run('Hi.', { sandbox: 'workspace' })).text).toBe('inside')
  })
})

describe('a session of a scripted agent', () => {
  it('asks for permission, and for input', async () => {
    const agent = scriptedAgent([
      {
        tool: { name: 'bash', kind: 'execute', input: { command: 'npm test' }, output: 'ok', ask: true },
        say: 'Ran.',
      },
      { tool: { name: 'bash', kind: 'execute', input: { command: 'rm -rf /' }, ask: true }, say: 'Tried.' },
      {
        ask: { message: 'Which port?', schema: { type: 'object', properties: { port: { type: 'number' } } } },
        say: 'Thanks.',
      },
    ])
    const session = await new Harness({ provider: agent }).open({
      permission: 'ask',
      onPermission: ({ tool }) => (tool.title === 'npm test' ? 'allow' : 'reject'),
      onElicitation: () => ({ action: 'accept', content: { port: 80 } }),
    })
    for (const prompt of ['Test.', 'Clean.', 'Serve.']) await session.prompt(prompt)
    await session.close()
    expect(agent.prompts().map(({ answers }) => answers)).toEqual([
      ['allow'],
      ['reject'],
      [{ action: 'accept', content: { port: 80 } }],
    ])
  })

  it('calls the tools of the caller', async () => {
    const agent = scriptedAgent([{ tool: { name: 'ticket', input: { id: 7 } }, say: 'Seen.' }])
    const seen: unknown[] = []
    const ticket = defineTool('ticket', {
      description: 'Reads a ticket',
      parameters: { type: 'object', properties: { id: { type: 'number' } } },
      handler: (input) => (seen.push(input), 'The door is stuck.'),
    })
    const asked: unknown[] = []
    const session = await new Harness({ provider: agent }).open({
      onPermission: ({ tool }) => (asked.push(tool.name), 'allow'),
      tools: [ticket],
    })
    const turn = session.start('Read ticket 7.')
    const outputs: unknown[] = []
    for await (const event of turn) if (event.type === 'tool_end') outputs.push(event.output)
    expect((await turn.result).text).toBe('Seen.')
    await session.close()
    expect([asked, seen]).toEqual([['ticket'], [{ id: 7 }]])
    expect(outputs).toEqual([expect.stringContaining('The door is stuck.')])
  })
})

describe('scriptedAgent', () => {
  it('fails on where nothing follows a failure', async () => {
    const agent = scriptedAgent([{ fail: 'overloaded' }])
    const turn = new Harness({ provider: agent }).run('x', { retry: { attempts: 2, baseDelayMs: 1 } })
    await expect(turn).rejects.toMatchObject({ code: 'AGENT_FAILED', kind: 'overloaded' })
    expect(agent.prompts().map(({ step }) => step)).toEqual([0, 0])
  })

  it.each([
    ['edit', false, 'ran'],
    ['auto', false, 'ran'],
    ['plan', true, 'ran'],
    ['plan', false, 'refused'],
  ] as const)(
    'at "%s" a tool of the caller with readOnly %s is %s',
    async (permission, readOnly, outcome) => {
      const agent = scriptedAgent([{ tool: { name: 'ticket' }, say: 'Seen.' }])
      let calls = 0
      const ticket = defineTool('ticket', { description: 'x', readOnly, handler: () => `${++calls}` })
      await using session = await new Harness({ provider: agent }).open({ permission, tools: [ticket] })
      const { warnings } = await session.prompt('x')
      expect(calls).toBe(outcome === 'ran' ? 1 : 0)
      expect(warnings.some((warning) => warning.startsWith('ticket was refused: '))).toBe(
        outcome === 'refused',
      )
    },
  )

  it('refuses a wrong step by its path', () => {
    const wrong = (step: object) => () => scriptedAgent([step])
    expect(wrong({ sya: 'x' })).toThrow('steps[0].sya: no such option; did you mean say?')
    expect(wrong({ fail: 'tired' })).toThrow(/^steps\[0\]\.fail: expected /)
    expect(wrong({ tool: { nam: 'x' } })).toThrow(/^steps\[0\]\.tool\.nam: /)
    expect(wrong({ tool: {} })).toThrow('steps[0].tool.name: is missing')
    expect(wrong({ ask: {} })).toThrow('steps[0].ask.message: is missing')
    expect(wrong({ limit: {} })).toThrow('steps[0].limit.resetsInMs: is missing')
    const tokens = { inputTokens: -1 }
    expect(wrong({ usage: tokens })).toThrow(
      'steps[0].usage.inputTokens: expected a finite number >= 0, got -1',
    )
  })

  it('leaves no folder behind', () => {
    const script = `const { scriptedAgent } = require('sheepdog/testing'); console.log(scriptedAgent([]).state[0])`
    const { stdout } = spawnSync(process.execPath, ['-e', script], {
      cwd: `${__dirname}/..`,
      encoding: 'utf8',
    })
    expect(stdout).toMatch(/sheepdog-scripted-/)
    expect(existsSync(stdout.trim())).toBe(false)
  })
})
