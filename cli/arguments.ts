// Words of a command line become checked values. PURE: every fault is a UsageError, printed in one line by main.ts.
import { parseArgs, type ParseArgsConfig } from 'node:util'
import { suggestion } from '../lib/option'

/** A wrong command line. */
export class UsageError extends Error {}

/** What a command may be given: `{ idle: { type: 'string' }, json: { type: 'boolean' } }`; --help and -h are always known. */
export type OptionTable = Record<string, { type: 'string' | 'boolean'; short?: string; multiple?: boolean }>

type OptionValue<O extends OptionTable[string]> = O['multiple'] extends true
  ? (O['type'] extends 'string' ? string : boolean)[]
  : O['type'] extends 'string'
    ? string
    : boolean

export interface ParsedArguments<T extends OptionTable> {
  values: { [name in keyof T]?: OptionValue<T[name]> } & { help?: boolean }
  positionals: string[]
  /** What follows the first `--`, or the first positional when `commandFollows`; undefined: there is neither. */
  command?: string[]
}

/**
 * Parses a command's words. With `commandFollows` the options end at `--` or at the first word that is none, and the rest is a
 * program with its own arguments.
 */
export function parseArguments<T extends OptionTable>(
  args: string[],
  table: T,
  { commandFollows = false } = {},
): ParsedArguments<T> {
  const options: ParseArgsConfig['options'] = { ...table, help: { type: 'boolean', short: 'h' } }
  const scan = (words: string[]) =>
    parseArgs({ args: words, options, strict: false, allowPositionals: true, tokens: true })
  const end = scan(args).tokens.find(
    ({ kind }) => kind === 'option-terminator' || (commandFollows && kind === 'positional'),
  )
  const command = end && args.slice(end.kind === 'option-terminator' ? end.index + 1 : end.index)
  const { tokens, values, positionals } = scan(end ? args.slice(0, end.index) : args)
  const names = Object.keys(options)
  for (const token of tokens) {
    if (token.kind !== 'option') continue
    const option = Object.hasOwn(options, token.name) ? options[token.name] : undefined
    if (!option) throw new UsageError(`unknown option ${token.rawName}${optionSuggestion(token.name, names)}`)
    if (option.type === 'string' && token.value === undefined)
      throw new UsageError(`${token.rawName} needs a value`)
    if (option.type === 'boolean' && token.value !== undefined) {
      throw new UsageError(`${token.rawName} takes no value, got ${JSON.stringify(token.value)}`)
    }
  }
  return { values: { ...values } as ParsedArguments<T>['values'], positionals, command }
}

function optionSuggestion(name: string, names: string[]): string {
  return suggestion(name, names).replace(/mean /, 'mean --')
}

const unitMs: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }

/** Milliseconds of `120s`, `30m`, `1.5h`, `500ms`, a plain number of seconds, or `off` (Infinity). */
export function parseDuration(option: string, text: string): number {
  if (text === 'off') return Infinity
  const [, number, unit = 's'] = /^(\d+(?:\.\d+)?|\.\d+)(ms|s|m|h)?$/.exec(text) ?? []
  if (number === undefined) {
    throw new UsageError(
      `${option}: expected a duration such as 120s, 30m, 1.5h, 500ms or off, got ${JSON.stringify(text)}`,
    )
  }
  return Number(number) * unitMs[unit]!
}
