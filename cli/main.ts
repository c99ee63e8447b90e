// The `sheepdog` command: finds the command that is asked for and runs it. Commands are files of this folder, loaded when they
// are needed, so that one that is broken or absent never stands in the way of the others.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { suggestion } from '../lib/option'
import { UsageError } from './arguments'

/** What each command's file exports. */
export interface Command {
  /** A few words for the list of commands. */
  summary: string
  /** The whole help; begins with "Usage: sheepdog". */
  usage: string
  /** The first word that is no option begins another program's command line: what follows is not ours to look at. */
  runsProgram?: boolean
  /** Resolves with the exit status. A UsageError is shown in one line, as any other error. */
  run(args: string[]): Promise<number>
}

const names = [
  'run',
  'agent',
  'chat',
  'serve',
  'query',
  'exec',
  'replay',
  'view',
  'ps',
  'reap',
  'work',
  'submit',
  'jobs',
  'fleet',
  'doctor',
]

function available(): string[] {
  return names.filter((name) => existsSync(join(__dirname, `${name}.js`)))
}

function load(name: string): Command {
  return require(join(__dirname, `${name}.js`)) as Command
}

function version(): string {
  return JSON.parse(readFileSync(join(__dirname, '..', '..', 'package.json'), 'utf8')).version
}

function usage(): string {
  const list = available().map((name) => {
    try {
      return `  ${name.padEnd(10)}${load(name).summary}`
    } catch (error) {
      return `  ${name.padEnd(10)}(can't be loaded: ${String((error as Error).message).split('\n')[0]})`
    }
  })
  return `Usage: sheepdog COMMAND [options]

Keeps coding agents, and any other program, in hand.

Commands:
${list.join('\n')}

Options:
  -h, --help      show this, or with a command its own help
  -v, --version   show the version

\`sheepdog help COMMAND\` tells more of a command.
`
}

/** Whether help is asked for, before the words of another program begin. */
function wantsHelp(args: string[], runsProgram: boolean): boolean {
  const end = args.findIndex((word) => word === '--' || (runsProgram && !word.startsWith('-')))
  return (end < 0 ? args : args.slice(0, end)).some((word) => word === '--help' || word === '-h')
}

function find(name: string): Command {
  if (available().includes(name)) return load(name)
  const known = name.startsWith('-') ? ['--help', '--version'] : available()
  const what = name.startsWith('-') ? 'option' : 'command'
  throw new UsageError(
    `no such ${what}: ${JSON.stringify(name)}${suggestion(name, known)} (sheepdog --help lists all)`,
  )
}

async function dispatch(args: string[]): Promise<number> {
  const [name, ...rest] = args
  if (name === '--version' || name === '-v') return show(`${version()}\n`)
  if (name === undefined || name === '--help' || name === '-h') return show(usage())
  if (name === 'help') return show(rest[0] === undefined ? usage() : find(rest[0]).usage)
  const command = find(name)
  return wantsHelp(rest, command.runsProgram ?? false) ? show(command.usage) : command.run(rest)
}

function show(text: string): number {
  process.stdout.write(text)
  return 0
}

/** One line where a longer message would only tell where the package looked for its parts. */
function explain({ code, message }: NodeJS.ErrnoException): string {
  return code === 'MODULE_NOT_FOUND' ? `${message.split('\n')[0]}: run \`npm run build\`` : message
}

/** Runs the command line; resolves with the exit status. Never rejects. */
export async function main(args: string[]): Promise<number> {
  // A reader that went away (`| head`) is no fault.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  try {
    return await dispatch(args)
  } catch (error) {
    const message = explain(error as NodeJS.ErrnoException)
    const command = names.includes(args[0] ?? '') ? `sheepdog ${args[0]}` : 'sheepdog'
    process.stderr.write(`${command}: ${message}\n`)
    return 1
  }
}
