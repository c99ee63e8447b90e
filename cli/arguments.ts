// Words of a command line become checked values. PURE: every fault is a UsageError, printed in one line by main.ts.
import { parseArgs, type ParseArgsConfig } from 'node:util'
import { suggestion } from '../lib/hint'
import type { Option, OptionTable } from './command'

/** A wrong command line. */
export class UsageError extends Error {}

/** Exit status for a wrong command line. */
export const usageStatus = 2

type OptionValue<O extends Option> = O extends { read: (flag: string, given: never) => infer Value }
  ? Value
  : O extends { type: 'string'; multiple: true }
    ? string[]
    : O['type'] extends 'string'
      ? string
      : boolean

export const helpOption = { type: 'boolean', short: 'h', help: 'show this help' } as const satisfies Option

export interface ParsedArguments<T extends OptionTable> {
  values: { [name in keyof T]?: OptionValue<T[name]> } & { help?: boolean }
  positionals: string[]
  /** The words after the first `--`, or after the first positional when `commandFollows`; undefined when there is neither. */
  command?: string[]
}

/**
 * Parses a command's words. With `commandFollows` the options end at `--` or at the first word that is none, and the rest is a
 * program with its own arguments.
 */
export function parseArguments<const T extends OptionTable>(
  args: string[],
  table: T,
  { commandFollows = false } = {},
): ParsedArguments<T> {
  const options: Record<string, Option> = { ...table, help: helpOption }
  const config = Object.fromEntries(
    Object.entries(options).map(([name, { help: _, ...option }]) => [name, option]),
  ) as ParseArgsConfig['options']
  const scan = (words: string[]) =>
    parseArgs({ args: words, options: config, strict: false, allowPositionals: true, tokens: true })
  const end = scan(args).tokens.find(
    ({ kind }) => kind === 'option-terminator' || (commandFollows && kind === 'positional'),
  )
  const command = end && args.slice(end.kind === 'option-terminator' ? end.index + 1 : end.index)
  const { tokens, values, positionals } = scan(end ? args.slice(0, end.index) : args)
  const names = Object.keys(options)
  // The word after an option without its value, which Node takes for the value.
  const isOption = (word = '') =>
    word === '--' || (word.startsWith('--') && names.includes(word.slice(2).split('=')[0]!))
  for (const token of tokens) {
    if (token.kind !== 'option') continue
    const option = Object.hasOwn(options, token.name) ? options[token.name] : undefined
    if (!option)
      throw new UsageError(
        `unknown option ${token.rawName}${suggestion(token.name, names, (known) => `--${known}`)}`,
      )
    const isForgotten = !token.inlineValue && isOption(token.value)
    if (option.type === 'string' && (token.value === undefined || isForgotten))
      throw new UsageError(`${token.rawName} needs a value${isForgotten ? `, got ${token.value}` : ''}`)
    if (option.type === 'boolean' && token.value !== undefined) {
      throw new UsageError(`${token.rawName} takes no value, got ${JSON.stringify(token.value)}`)
    }
  }
  const read = Object.entries(values).map(([name, given]) => {
    const option = options[name]!
    return [name, 'read' in option && option.read ? option.read(`--${name}`, given as never) : given]
  })
  return { values: Object.fromEntries(read) as ParsedArguments<T>['values'], positionals, command }
}

/** A number of this form. */
export function parseNumber(flag: string, text: string, what = 'a number', form = /^\d+$/): number {
  if (!form.test(text)) throw new UsageError(`${flag}: expected ${what}, got ${JSON.stringify(text)}`)
  return Number(text)
}

export function parseCount(flag: string, text: string): number {
  return parseNumber(flag, text, 'a number >= 1', /^[1-9]\d*$/)
}

export function parsePort(flag: string, text: string): number {
  const what = 'a number between 0 and 65535'
  const port = parseNumber(flag, text, what)
  if (port > 65_535) throw new UsageError(`${flag}: expected ${what}, got ${JSON.stringify(text)}`)
  return port
}

const unitMs: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Milliseconds of `120s`, `30m`, `1.5h`, `7d`, `500ms`, a plain number of seconds, or `off` (Infinity). */
export function parseDuration(option: string, text: string): number {
  if (text === 'off') return Infinity
  const [, number, unit = 's'] = /^(\d+(?:\.\d+)?|\.\d+)(ms|s|m|h|d)?$/.exec(text) ?? []
  if (number === undefined) {
    throw new UsageError(
      `${option}: expected a duration such as 120s, 30m, 1.5h, 500ms or off, got ${JSON.stringify(text)}`,
    )
  }
  return Number(number) * unitMs[unit]!
}

const unitBytes: Record<string, number> = { '': 1, K: 2 ** 10, M: 2 ** 20, G: 2 ** 30, T: 2 ** 40 }

/** Bytes of `512M`, `1.5G`, `64K`, a plain number of bytes. */
export function parseSize(option: string, text: string): number {
  const [, number, unit = ''] = /^(\d+(?:\.\d+)?)([KMGT]?)i?B?$/i.exec(text) ?? []
  const bytes = Math.floor(Number(number) * (unitBytes[unit.toUpperCase()] ?? NaN))
  if (!(bytes >= 1)) {
    throw new UsageError(
      `${option}: expected a size such as 512M, 1.5G or a number of bytes, got ${JSON.stringify(text)}`,
    )
  }
  return bytes
}

/** `place`: the option or the line with the JSON. Editors of some systems put a mark of the byte order before it. */
export function parseJson(place: string, text: string): unknown {
  try {
    return JSON.parse(text.replace(/^\uFEFF/, ''))
  } catch (error) {
    throw new UsageError(`${place}: invalid JSON: ${(error as Error).message}`)
  }
}

/** Variables of `NAME=VALUE`. */
export function parseVariables(option: string, texts: string[]): Record<string, string> {
  return Object.fromEntries(
    texts.map((text) => {
      const at = text.indexOf('=')
      if (at < 1) throw new UsageError(`${option}: expected NAME=VALUE, got ${JSON.stringify(text)}`)
      return [text.slice(0, at), text.slice(at + 1)]
    }),
  )
}
