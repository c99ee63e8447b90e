import { randomUUID } from 'node:crypto'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { run, spawn } from '../index.js'
import { eventLines } from '../scripts/demo/event.mjs'
import { markName, markedProcesses } from '../scripts/demo/marked.mjs'

const root = join(import.meta.dirname, '..')
const temp = mkdtempSync(join(tmpdir(), 'sheepdog-demo-spec-'))
afterAll(() => rmSync(temp, { recursive: true }))

const demo = (args: string[] = [], options = {}) =>
  run(process.execPath, [join(root, 'scripts/demo/main.mjs'), ...args], { env: { TMPDIR: temp }, ...options })

describe('the demo', () => {
  it('shows a good turn and a stalled one of a real agent, and that nothing is left', async () => {
    const { exitCode, stdout, stderr } = await demo()
    expect({ exitCode, stderr }, stdout).toEqual({ exitCode: 0, stderr: '' })
    expect(stdout).toMatch(/output +sheep Ada\n/)
    expect(stdout).toMatch(/says +and the third looks at the gate\.\n/)
    expect(stdout).toMatch(
      /Alive when the model fell silent:\n( +\d+ {2}\S.*\n)? +\d+ {2}tail -f \/dev\/null\n/,
    )
    expect(stdout).toMatch(/^Alive now: none$/m)
    expect(stdout).toMatch(/^what ran +how it ended +took +printed +strays killed$/m)
    expect(stdout).toMatch(/^pi, a good turn +exited with 0 +\S+ s +\d+ lines, \S+ kB +0$/m)
    expect(stdout).toMatch(/^pi, its model stalls +silent for \S+ s: killed +\S+ s +\d+ lines, \S+ kB +1$/m)
    expect(stdout).toMatch(/All went as it should\.\n$/)
    expect(readdirSync(temp), 'its folder is gone').toEqual([])
  })

  it('watches any program, and ends as it does', async () => {
    const { exitCode, stdout } = await demo(['sh', '-c', 'echo one; echo two >&2; exit 3'])
    expect(stdout).toMatch(/^one\n\nwhat ran /)
    expect(stdout).toMatch(/^sh -c echo one; echo two >&2; exit 3 +exited with 3 +\d+ ms +2 lines, 8 B +0$/m)
    expect(exitCode).toBe(3)
    const missing = await demo(['no-such-program-anywhere'])
    expect(missing.stdout).toMatch(/^no-such-program-anywhere +not started: PROCESS_NOT_FOUND/m)
    expect(missing.exitCode).toBe(127)
  })

  it('leaves nothing behind when it is interrupted', async () => {
    const child = spawn(process.execPath, [join(root, 'scripts/demo/main.mjs')], { env: { TMPDIR: temp } })
    for await (const { text } of child) if (/ prompt /.test(text)) process.kill(child.pid!, 'SIGINT')
    expect((await child.result).exitCode).toBe(130)
    expect(readdirSync(temp)).toEqual([])
  })
})

describe('its proof', () => {
  it('sees a marked process while it lives, in a session of its own too, and not after', async () => {
    const mark = randomUUID()
    // Both shells stay as they are: the environment of a process cannot be read while it executes another program.
    const child = spawn('sh', ['-c', 'setsid sh -c "echo ready; sleep 60; :" & wait'], {
      env: { [markName]: mark },
    })
    for await (const { text } of child) if (text === 'ready') break
    expect(markedProcesses(mark).length).toBeGreaterThanOrEqual(2)
    expect(markedProcesses(randomUUID())).toEqual([])
    await child.kill()
    expect(markedProcesses(mark)).toEqual([])
  })
})

describe('its words', () => {
  it('print whole lines of text that comes in pieces, and fresh output of a tool only', () => {
    const lines = eventLines()
    const delta = (text: string) =>
      lines.of({ type: 'message_update', assistantMessageEvent: { type: 'text_delta', delta: text } })
    expect(delta('one\ntw')).toEqual({ shown: [['says', 'one']], live: 'tw', tool: undefined })
    expect(delta('o')).toMatchObject({ shown: [], live: 'two' })
    expect(lines.rest()).toBe('two')
    expect(lines.of({ type: 'message_end', message: { content: [] } }).shown).toEqual([['says', 'two']])
    const start = { type: 'tool_execution_start', toolName: 'bash', args: { command: 'ls' } }
    expect(lines.of(start)).toMatchObject({ shown: [['tool', 'bash: ls']], tool: 'bash' })
    const update = (text: string) =>
      lines.of({ type: 'tool_execution_update', partialResult: { content: [{ type: 'text', text }] } }).shown
    expect(update('a\n')).toEqual([['output', 'a\n']])
    expect(update('a\nb\n')).toEqual([['output', 'b\n']])
    expect(lines.of({ type: 'anything else' })).toMatchObject({ shown: [] })
  })
})
