// A turn and a session say what they lack: servers of tools that failed, answers without a word, a session that is in use.
import { describe, expect, it } from 'vitest'
import { Harness, defineTool } from '..'
import { scriptedAgent } from '../entries/testing.js'
import { command, done, failure, folder, played, player, said, session } from './played-agent'

const line = (line: object) => ({ line })

describe('a server of tools that an agent could not use', () => {
  const turn = (servers: object[]) =>
    new Harness({
      provider: 'claude-code',
      cwd: folder,
      binary: [
        'node',
        player,
        JSON.stringify([
          line({ type: 'system', subtype: 'init', session_id: 's', mcp_servers: servers }),
          line({ type: 'result', subtype: 'success', is_error: false, result: 'Done.', session_id: 's' }),
        ]),
      ],
    }).run('hi')

  it.each(['failed', 'needs-auth', 'disabled', 'a new word'])('is a warning: %s', async (status) => {
    const { text, warnings } = await turn([{ name: 'tickets', status }])
    expect(text).toBe('Done.')
    expect(warnings.join('\n')).toContain(`MCP server "tickets" (${status})`)
  })

  it('is none where it is connected, or may still be', async () => {
    const { warnings } = await turn([
      { name: 'one', status: 'connected' },
      { name: 'two', status: 'pending' },
    ])
    expect(warnings.join('\n')).not.toContain('MCP server')
  })
})

describe('a turn without a word', () => {
  it('is no success', async () => {
    expect(await failure(played([session, done]).run('hi', { retry: { attempts: 1 } }))).toMatchObject({
      code: 'AGENT_TRUNCATED',
      message: expect.stringContaining('without a word and without a tool call'),
    })
  })

  it('is one where it used a tool', async () => {
    const ended = { ...command, exit_code: 0, status: 'completed' }
    const plan = [
      session,
      line({ type: 'item.started', item: command }),
      line({ type: 'item.completed', item: ended }),
      done,
    ]
    expect(await played(plan).run('hi')).toMatchObject({ text: '', toolCalls: 1 })
  })
})

describe('a session id', () => {
  it('that two turns go on with at once is a warning of the second', async () => {
    const resume = `in-use-${process.pid}`
    const own = { line: { type: 'thread.started', thread_id: resume } }
    const first = played([own, { wait: 2000 }, said('One.'), done]).start('hi', { resume })
    for await (const event of first) if (event.type === 'session') break
    const second = await played([own, said('Two.'), done]).run('hi', { resume })
    expect(second.warnings.join('\n')).toContain(`session ${resume} is open`)
    expect((await first.result).warnings.join('\n')).not.toContain('is open')
    const third = await played([own, said('Three.'), done]).run('hi', { resume })
    expect(third.warnings.join('\n')).not.toContain('is open')
  })
})

describe('tools of the host', () => {
  const tool = () =>
    defineTool('sum', { description: 'Adds.', parameters: { type: 'object' }, handler: () => '2' })
  const warningsOf = async (step: object) => {
    const opened = await new Harness({ provider: scriptedAgent([step, { say: 'More.' }]) }).open({
      tools: [tool()],
      permission: 'auto',
    })
    try {
      const first = (await opened.prompt('hi')).warnings.join('\n')
      return [first, (await opened.prompt('again')).warnings.join('\n')]
    } finally {
      await opened.close()
    }
  }

  it('that the agent never asked for are a warning of the first prompt alone', async () => {
    const [first, second] = await warningsOf({ say: 'Without.' })
    expect(first).toContain('has not asked for the tools of this session')
    expect(second).not.toContain('has not asked')
  })

  it('that it asked for are none', async () => {
    const [first] = await warningsOf({ tool: { name: 'sum' }, say: 'Two.' })
    expect(first).not.toContain('has not asked')
  })
})

describe('the words of an error', () => {
  it.each([
    ['Node.js v20.20.2', "Error: Cannot find module 'x'\n    at f (a.js:1:2)\n\nNode.js v20.20.2"],
    ['   |   ^', 'Error: Cannot find module x\n   |\n 3 | a = [\n   |   ^'],
    ['--- End ---', '--- Begin ---\nError: Cannot find module x\n--- End ---'],
  ])('are the first line that names one, not %s', async (last, stderr) => {
    const error = await failure(
      played([{ stderr: `${stderr}\n` }, { exit: 1 }]).run('hi', { retry: { attempts: 1 } }),
    )
    expect(error.code).toBe('AGENT_CRASHED')
    expect(error.message).toContain('Cannot find module')
    expect(error.message).not.toContain(last.trim())
  })
})
