// sheepdog chat in a pipe, with a scripted agent.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { scriptedAgent } from '../entries/testing.js'
import { command } from './cli-command'

function chat(...options: string[]) {
  const agent = scriptedAgent([{ say: 'Hello world' }, { say: 'Hello again' }])
  const words = ['chat', '--permission', 'auto', ...options, '--', agent.command, ...agent.args!]
  return spawn(process.execPath, [command, ...words], { stdio: ['pipe', 'pipe', 'pipe'] })
}

describe('sheepdog chat', () => {
  it('sends each line of stdin as a prompt, and prints the answers', async () => {
    const child = chat()
    child.stdin.end('hello\nhello\n')
    const [[status], stdout] = await Promise.all([once(child, 'close'), text(child.stdout)])
    expect({ status, stdout }).toEqual({ status: 0, stdout: 'Hello world\nHello again\n' })
  })

  it('ends by the signal that ended it, so that a loop stops', async () => {
    for (const [signal, ending] of [
      ['SIGINT', [null, 'SIGINT']],
      ['SIGTERM', [143, null]],
    ] as const) {
      const child = chat('--json')
      child.stdout.setEncoding('utf8').on('data', (line: string) => {
        if (line.includes('"type":"result"')) child.kill(signal)
      })
      child.stdin.write('hello\n')
      expect(await once(child, 'exit')).toEqual(ending)
    }
  })
})
