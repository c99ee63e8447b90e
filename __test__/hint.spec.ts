// Hints for names that are not known: they find what was meant, and keep quiet where they would only guess.
import { expect, it } from 'vitest'
import { suggestion } from '../lib/hint'
import { inCommandWords, shownAddress } from '../cli/words'
import { colouredHelp } from '../cli/colour'

it.each([
  ['cols', ['rows', 'columns'], 'columns'],
  ['cliPaht', ['cliPath', 'cliArgs', 'cwd'], 'cliPath'],
  ['claude', ['claude-code', 'codex', 'qwen'], 'claude-code'],
  ['outputSchema', ['schema', 'model'], 'schema'],
  ['tokens', ['maxTokens', 'maxCostUsd'], 'maxTokens'],
  ['idleTimeout', ['idleTimeoutMs', 'timeoutMs'], 'idleTimeoutMs'],
  ['environment', ['env', 'cwd'], 'env'],
  ['kil', ['kill', 'keep'], 'kill'],
  ['idel', ['idle', 'timeout'], 'idle'],
  ['CWD', ['cwd', 'env'], 'cwd'],
])('%s among %j is meant to be %s', (name, known, meant) => {
  expect(suggestion(name, known)).toBe(`; did you mean ${meant}?`)
})

it.each([
  ['cols', ['rows', 'name']],
  ['pty', ['cwd', 'env', 'name']],
  ['nonsense', ['schema', 'model', 'resume']],
  ['max', ['maxTokens', 'maxCostUsd']],
  ['x', ['y', 'z']],
])('%s among %j is none of them', (name, known) => {
  expect(suggestion(name, known)).toBe('')
})

it('messages of the library are told in the words of the command line', () => {
  expect(inCommandWords('sandbox.write[0]: /a: No such file (os error 2): each path must exist')).toBe(
    '--write: /a: No such file: each path must exist',
  )
  expect(inCommandWords('/nope does not exist: create it, or pass another `cwd`')).toBe(
    '/nope does not exist: create it, or pass another --cwd',
  )
  expect(inCommandWords('unknown: as it is')).toBe('unknown: as it is')
  expect(shownAddress('wss://user:pass@host:1/x?token=secret')).toBe('wss://host:1/x')
})

it('the help in colours has the same words', () => {
  const help =
    'Usage: sheepdog run COMMAND\n\nOptions:\n  -q, --quiet  be quiet\n\nExamples:\n  sheepdog run -- true\n'
  // eslint-disable-next-line no-control-regex
  expect(colouredHelp(help).replace(/\u001b\[[\d;]*m/g, '')).toBe(help)
  expect(colouredHelp(help)).toContain('\u001b[1;36m-q, --quiet')
})
