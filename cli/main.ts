// The `sheepdog` command: finds the command that is asked for, runs it, and ends as it did.
import { isUtf8 } from 'node:buffer'
import { readFileSync } from 'node:fs'
import { suggestion } from '../lib/hint'
import { timers } from '../lib/host'
import { UsageError, usageStatus } from './arguments'
import { available, load, names, variables, version } from './catalogue'
import { colouredHelp, wantsColour } from './colour'
import type { Ending, NamedCommand } from './command'
import { renderHelp, wrap } from './help'
import { leaveBy, signalStatus } from './interrupt'
import { quietCodes } from './output'
import { passThrough, put, tell } from './screen'
import { inCommandWords } from './words'

function usage(): string {
  const list = available().map((name) => {
    try {
      return `  ${name.padEnd(13)}${load(name).summary}`
    } catch (error) {
      return `  ${name.padEnd(13)}(can't be loaded: ${String((error as Error).message).split('\n')[0]})`
    }
  })
  return `Usage: sheepdog COMMAND [options]

Runs coding agents and other programs under supervision: each run ends, and
leaves no process behind.

Commands:
${list.join('\n')}

Options:
  -h, --help     show this help, or the help of a command
  -v, --version  show the version

Variables:
${variables.map(describeVariable).join('\n')}

Examples:
  sheepdog run --idle 5m -- npm test
  sheepdog agent codex "Which tests fail, and why?"

\`sheepdog help COMMAND\` shows the help of a command.
A wrong command line ends with exit status 2.
`
}

function describeVariable([name, help]: (typeof variables)[number]): string {
  const indent = ' '.repeat(26)
  return `  ${name.padEnd(24)}${wrap(help, 54).join(`\n${indent}`)}`
}

/** Whether help is asked for, before the words of another program begin. */
function wantsHelp(args: string[], runsProgram: boolean): boolean {
  const end = args.findIndex((word) => word === '--' || (runsProgram && !word.startsWith('-')))
  return (end < 0 ? args : args.slice(0, end)).some((word) => word === '--help' || word === '-h')
}

function find(name: string): NamedCommand {
  if (available().includes(name)) return load(name)
  const known = name.startsWith('-') ? ['--help', '--version'] : available()
  const what = name.startsWith('-') ? 'option' : 'command'
  throw new UsageError(
    `no such ${what}: ${JSON.stringify(name)}${suggestion(name, known)} (sheepdog --help lists all)`,
  )
}

async function dispatch(args: string[]): Promise<Ending> {
  const [name, ...rest] = args
  if (name === '--version' || name === '-v') return show(`${version()}\n`)
  if (name === undefined || name === '--help' || name === '-h') return showHelp(usage())
  if (name === 'help') return showHelp(rest[0] === undefined ? usage() : renderHelp(find(rest[0])))
  const command = find(name)
  const isAlone = command.helpsAlone === true && rest.length === 0
  return isAlone || wantsHelp(rest, command.runsProgram ?? false)
    ? showHelp(renderHelp(command))
    : command.run(rest)
}

function show(text: string): number {
  put('stdout', text)
  return 0
}

/** Help is our own text: its colours reach the terminal. */
function showHelp(text: string): number {
  const isColoured = wantsColour(process.stdout)
  passThrough('stdout', isColoured ? colouredHelp(text) : text)
  return 0
}

/** One line where a longer message would only tell where the package looked for its parts. */
function explain({ code, message }: NodeJS.ErrnoException): string {
  return code === 'MODULE_NOT_FOUND'
    ? `${message.split('\n')[0]}: run \`npm run build\``
    : inCommandWords(message)
}

/**
 * Refuses words that Node has changed: it reads bytes that are not UTF-8 as U+FFFD, and a program would get another name than the one
 * that was written.
 */
function checkWords(args: string[]): void {
  if (!args.some((word) => word.includes('\ufffd'))) return
  let words: Buffer
  try {
    words = readFileSync('/proc/self/cmdline')
  } catch {
    return
  }
  for (let at = 0, end = words.indexOf(0); end >= 0; at = end + 1, end = words.indexOf(0, at)) {
    const word = words.subarray(at, end)
    if (isUtf8(word)) continue
    const shown = word
      .toString('latin1')
      .replace(/[^ -~]/g, (byte) => `\\x${byte.charCodeAt(0).toString(16).padStart(2, '0')}`)
    throw new UsageError(
      `the argument ${shown} is not UTF-8 and cannot be passed on: run it by a shell, sh -c '...'`,
    )
  }
}

/** Whether the command line is at fault: its form, or a value that the library refused. */
function isUsage(error: unknown): boolean {
  return error instanceof UsageError || (error as NodeJS.ErrnoException).code === 'INVALID_OPTION'
}

/** How long a reader that does not read may hold up the end. */
const partingMs = 500

/** Runs the command line and ends with it. Never rejects. */
export async function main(args: string[]): Promise<void> {
  let unwritable: NodeJS.ErrnoException | undefined
  process.stdout.on('error', (error) => (unwritable ??= error))
  process.stderr.on('error', () => {})
  const name = names.includes(args[0] ?? '') ? `sheepdog ${args[0]}` : 'sheepdog'
  let ending: Ending
  try {
    checkWords(args)
    ending = await dispatch(args)
  } catch (error) {
    tell(`${name}: ${explain(error as NodeJS.ErrnoException)}`)
    ending = isUsage(error) ? usageStatus : 1
  }
  // A write that fails is told later than it is made.
  const written = new Promise((done) => process.stdout.write('', done))
  const parting = new Promise((done) => timers.setTimeout(done, partingMs).unref())
  await (typeof ending === 'number' ? written : Promise.race([written, parting]))
  if (typeof ending === 'string') return leaveBy(ending)
  process.exitCode = unwritable && ending === 0 ? untold(name, unwritable) : ending
}

/** A success that nobody could be told is none. */
function untold(name: string, { code, message }: NodeJS.ErrnoException): number {
  // A reader that went away (`| head`) is no fault: the status is that of a program that SIGPIPE ended.
  if (quietCodes.has(code ?? '')) return signalStatus('SIGPIPE')
  tell(`${name}: output could not be written (${code ?? message})`)
  return 1
}
