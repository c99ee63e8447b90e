import { describe, expect, it } from 'vitest'
import { parseArguments, parseDuration, parseSize, parseVariables } from '../cli/arguments'

const table = {
  idle: { type: 'string', value: 'DURATION', help: '' },
  json: { type: 'boolean', help: '' },
} as const
const parse = (...args: string[]) => parseArguments(args, table, { commandFollows: true })

describe('parseDuration', () => {
  it.each([
    ['120s', 120_000],
    ['30m', 1_800_000],
    ['1.5h', 5_400_000],
    ['500ms', 500],
    ['2', 2000],
    ['.5', 500],
    ['0', 0],
    ['off', Infinity],
    ['30000000s', 30_000_000_000],
  ])('reads %s as %d ms', (text, ms) => {
    expect(parseDuration('--idle', text)).toBe(ms)
  })

  it.each(['', '5x', 's', '-5s', '1e3', 'NaN', 'Infinity', '1 s', '5S', '0x10', '1.2.3'])(
    'refuses %j',
    (text) => {
      expect(() => parseDuration('--idle', text)).toThrow(
        `--idle: expected a duration such as 120s, 30m, 1.5h, 500ms or off, got ${JSON.stringify(text)}`,
      )
    },
  )
})

describe('parseSize', () => {
  it.each([
    ['512M', 512 * 2 ** 20],
    ['1.5G', 1.5 * 2 ** 30],
    ['64k', 65_536],
    ['2GiB', 2 ** 31],
    ['4096', 4096],
  ])('reads %s as %d bytes', (text, bytes) => {
    expect(parseSize('--memory', text)).toBe(bytes)
  })

  it.each(['', 'M', '0', '-1M', '5X', '1e9', ' 1M'])('refuses %j', (text) => {
    expect(() => parseSize('--memory', text)).toThrow(/^--memory: expected a size such as 512M/)
  })
})

describe('parseVariables', () => {
  it('splits at the first "=", and wants one behind a name', () => {
    expect(parseVariables('--env', ['A=1', 'B=', 'C=x=y'])).toEqual({ A: '1', B: '', C: 'x=y' })
    for (const text of ['A', '=1', ''])
      expect(() => parseVariables('--env', [text])).toThrow(`--env: expected NAME=VALUE, got "${text}"`)
  })
})

describe('parseArguments', () => {
  it.each([
    [['--idle', '--', 'npm'], '--idle needs a value, got --'],
    [['--idle', '--json', 'npm'], '--idle needs a value, got --json'],
    [['--idle', '--idle=5', 'npm'], '--idle needs a value, got --idle=5'],
    [['--idle'], '--idle needs a value'],
  ])('takes no option for the value of another one: %j', (words, message) => {
    expect(() => parse(...words)).toThrow(message)
    // A text may begin with a dash.
    for (const text of ['-', '--x', '- one', '-5'])
      expect(parse('--idle', text, 'npm')).toMatchObject({ values: { idle: text }, command: ['npm'] })
    expect(parse('--idle=--', 'npm').values).toEqual({ idle: '--' })
  })

  it('gives all that follows -- to the program, options and all', () => {
    expect(parse('--json', '--idle', '5s', '--', 'make', '--json', '--', '-j4')).toMatchObject({
      values: { json: true, idle: '5s' },
      command: ['make', '--json', '--', '-j4'],
    })
  })

  it('ends the options at the first word that is none, too', () => {
    expect(parse('--idle=5s', 'make', '--help', '--', 'x')).toMatchObject({
      values: { idle: '5s' },
      command: ['make', '--help', '--', 'x'],
    })
  })

  it('keeps positionals among the options where no program follows', () => {
    const { values, positionals } = parseArguments(['codex', '--json', 'prompt'], table)
    expect({ values: { ...values }, positionals }).toEqual({
      values: { json: true },
      positionals: ['codex', 'prompt'],
    })
  })

  it.each([
    [['--idel', '5s', 'ls'], 'unknown option --idel; did you mean --idle?'],
    [['--whatever-this-is', 'ls'], 'unknown option --whatever-this-is'],
    [['-q', 'ls'], 'unknown option -q'],
    [['--json=yes', 'ls'], '--json takes no value, got "yes"'],
    [['--idle'], '--idle needs a value'],
    [['--__proto__', 'ls'], 'unknown option --__proto__'],
  ])('says in one line what is wrong with %j', (args, message) => {
    expect(() => parse(...args)).toThrow(new Error(message))
  })
})
