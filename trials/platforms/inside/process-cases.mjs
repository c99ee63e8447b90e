// Running programs. Each case resolves with what is worth saying, and throws where a promise is broken.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { portableCases } from './portable-cases.mjs'
import { equal, run, sh, spawn, work } from './tools.mjs'

export const processCases = [
  {
    name: 'run',
    async attempt() {
      const result = await sh('echo out; echo err >&2; exit 3')
      equal([result.stdout, result.stderr, result.exitCode], ['out\n', 'err\n', 3])
      return result.containment
    },
  },
  {
    name: 'lines',
    async attempt() {
      const seen = []
      for await (const { stream, text } of spawn('sh', ['-c', 'echo a; echo b >&2; printf c']))
        seen.push(stream + text)
      equal(
        seen.sort((left, right) => (left < right ? -1 : 1)),
        ['stderrb', 'stdouta', 'stdoutc'],
      )
    },
  },
  {
    name: 'json',
    async attempt() {
      const seen = []
      const script = 'echo \'{"type":"a","n":1}\'; echo noise; echo \'{"type":"b"}\''
      for await (const value of spawn('sh', ['-c', script]).json({ types: ['a'] })) seen.push(value)
      equal(seen, [{ type: 'a', n: 1 }])
    },
  },
  {
    name: 'input',
    async attempt() {
      const text = 'x'.repeat(1 << 20)
      const { stdout } = await run('cat', [], { input: text })
      equal(stdout.length, text.length)
    },
  },
  {
    name: 'terminal',
    async attempt() {
      const { stdout } = await sh('test -t 0 && test -t 1 && echo terminal', { pty: true })
      equal(stdout, 'terminal\r\n')
    },
  },
  {
    name: 'output in a file',
    async attempt() {
      const child = spawn('sh', ['-c', 'echo saved'])
      await child.saveOutput({ stdout: join(work, 'saved') })
      equal(readFileSync(join(work, 'saved'), 'utf8'), 'saved\n')
    },
  },
  ...portableCases,
]
