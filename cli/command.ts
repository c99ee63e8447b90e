// The description of a command of `sheepdog`. Its help, the shells' completions and the manual are made of it: one table for all. PURE.
import {
  helpOption,
  parseCount,
  parseDuration,
  parsePort,
  parseJson,
  parseNumber,
  parseSize,
  parseVariables,
} from './arguments'
import type { Interrupt } from './interrupt'

/** Kinds of words on a command line, for a shell that completes them. */
export type Fitting = 'file' | 'folder' | 'program' | readonly string[]

interface Flag {
  type: 'boolean'
  /** One letter. */
  short?: string
  /** Description of the option; lines are broken where they have to be. */
  help: string
}

export interface Setting extends Omit<Flag, 'type'> {
  type: 'string'
  /** May be given again. */
  multiple?: boolean
  /** How the help calls its value: DURATION, FILE. */
  value: string
  fits?: Fitting
  /** Reads what was given: a text, or all texts of an option that may be given again. Without it the text is the value. */
  read?: (flag: string, given: never) => unknown
}

export type Option = Flag | Setting

/** By the option's name, without dashes. --help and -h are always known. */
export type OptionTable = Readonly<Record<string, Option>>

/** Kinds of values, by their names. */
const fitting: Record<string, Fitting> = { FILE: 'file', FOLDER: 'folder', PROGRAM: 'program' }

/** How values of these names are read. */
const readers = {
  DURATION: parseDuration,
  SIZE: parseSize,
  JSON: parseJson,
  'NAME=VALUE': parseVariables,
  'LEVEL=ID': parseVariables,
}

type Valued<Value extends string> = { type: 'string'; value: Value; help: string; fits?: Fitting } & {
  [read in Value extends keyof typeof readers ? 'read' : never]: (typeof readers)[Value &
    keyof typeof readers]
}

/** An option without a value. */
export const flag = (help: string) => ({ type: 'boolean', help }) as const

/** An option with a value. `fits`: null for one that is of another machine. */
export function setting<const Value extends string>(
  value: Value,
  help: string,
  fits: Fitting | null = fitting[value] ?? null,
): Valued<Value> {
  const read = (readers as Record<string, Setting['read']>)[value]
  return { type: 'string', value, help, ...(fits && { fits }), ...(read && { read }) } as Valued<Value>
}

/** An option that may be given again. */
export const several = <const Value extends string>(value: Value, help: string, fits?: Fitting) =>
  ({ ...setting(value, help, fits), multiple: true }) as Valued<Value> & { multiple: true }

/** An option whose value is a number of at least one. */
export const counted = (help: string) => ({ ...setting('N', help), read: parseCount })

/** One whose value is zero or more. */
export const numbered = (help: string) => ({
  ...setting('N', help),
  read: (flag: string, text: string) => parseNumber(flag, text),
})

export const portOption = (help: string) => ({ ...setting('N', help), read: parsePort })

/** Options of each command that starts a program or an agent. */
export const environmentOption = several('NAME=VALUE', 'add a variable to its environment; may be repeated')

export const folderOption = setting('FOLDER', 'working directory (default: the current one)')

/** A word that is no option. */
export interface Operand {
  name: string
  fits?: Fitting
}

/** An exit status, or the signal that ended it and ends this process as well. */
export type Ending = number | Interrupt

/** Exports of each command's file. */
export interface Command {
  /** A few words for the list of commands. */
  summary: string
  /** How it is written, without "sheepdog NAME"; the first is the usual way. */
  forms: readonly string[]
  /** Description of the command, in paragraphs. */
  about: string
  /** The words in their order. */
  operands?: readonly Operand[]
  options: OptionTable
  /** Below the options: exit status, signals, variables. Paragraphs; one that begins with "Word: " is about that. */
  notes?: string
  /** Whole command lines. */
  examples?: readonly string[]
  /** The first word that is no option begins another program's command line: what follows is not ours to look at. */
  runsProgram?: boolean
  /** Without any word its help is shown. */
  helpsAlone?: boolean
  /** Resolves with how it ended. A UsageError is shown in one line, as any other error. */
  run(args: string[]): Promise<Ending>
}

/** A command and its name. */
export type NamedCommand = Command & { name: string }

/** The options with --help, as help, completions and the manual list them. */
export function allOptions({ options }: Command): [name: string, option: Option][] {
  return [...Object.entries(options), ['help', helpOption]]
}

/** "-f, --follow", "--idle DURATION". */
export function written(name: string, option: Option): string {
  const short = option.short ? `-${option.short}, ` : ''
  return `${short}--${name}${option.type === 'string' ? ` ${option.value}` : ''}`
}
