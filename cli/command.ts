// The description of a command of `sheepdog`. Its help, the shells' completions and the manual are made of it: one table for all. PURE.
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
}

export type Option = Flag | Setting

/** By the option's name, without dashes. --help and -h are always known. */
export type OptionTable = Readonly<Record<string, Option>>

/** Kinds of values, by their names. */
const fitting: Record<string, Fitting> = { FILE: 'file', FOLDER: 'folder', PROGRAM: 'program' }

/** An option without a value. */
export const flag = (help: string) => ({ type: 'boolean', help }) as const

/** An option with a value. `fits`: null for one that is of another machine. */
export const setting = (value: string, help: string, fits: Fitting | null = fitting[value] ?? null) =>
  ({ type: 'string', value, help, ...(fits && { fits }) }) as const

/** An option that may be given again. */
export const several = (value: string, help: string, fits?: Fitting) =>
  ({ ...setting(value, help, fits), multiple: true }) as const

/** Options of each command that starts a program or an agent. */
export const environmentOption = several('NAME=VALUE', 'add a variable to its environment; may be repeated')

export const folderOption = setting('FOLDER', 'working directory (default: the current one)')

export const schemaOption = setting(
  'FILE',
  'JSON Schema that the answer must fit; the answer is printed as JSON',
)

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

export const helpOption = { type: 'boolean', short: 'h', help: 'show this help' } as const satisfies Option

/** The options with --help, as help, completions and the manual list them. */
export function allOptions({ options }: Command): [name: string, option: Option][] {
  return [...Object.entries(options), ['help', helpOption]]
}

/** "-f, --follow", "--idle DURATION". */
export function written(name: string, option: Option): string {
  const short = option.short ? `-${option.short}, ` : ''
  return `${short}--${name}${option.type === 'string' ? ` ${option.value}` : ''}`
}
