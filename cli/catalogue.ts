// Which commands there are. They are files of this folder, loaded when they are needed, so that one that is broken or absent never
// stands in the way of the others.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command, NamedCommand } from './command'

/** In the order of the help. */
export const names = [
  'run',
  'agent',
  'race',
  'chat',
  'acp',
  'mcp',
  'serve',
  'query',
  'exec',
  'replay',
  'runs',
  'view',
  'ps',
  'reap',
  'work',
  'submit',
  'jobs',
  'fleet',
  'doctor',
  'completions',
]

/** Those that are built. */
export function available(): string[] {
  return names.filter((name) => existsSync(join(__dirname, `${name}.js`)))
}

export function load(name: string): NamedCommand {
  return { ...(require(join(__dirname, `${name}.js`)) as Command), name }
}

/** All that can be loaded, in the order of the help. */
export function commands(): NamedCommand[] {
  return available().map(load)
}

export function version(): string {
  return JSON.parse(readFileSync(join(__dirname, '..', '..', 'package.json'), 'utf8')).version
}

/** Variables that are read, and what they do: for help and manual. */
export const variables: [name: string, help: string][] = [
  ['SHEEPDOG_IDLE_SECONDS', 'idle timeout where --idle is not given; 0 or less turns it off'],
  ['SHEEPDOG_RUNTIME_TOKEN', 'token of serve, query and exec, hidden from the process list'],
  ['SHEEPDOG_NATS', 'NATS server of work, submit, jobs and fleet'],
  ['SHEEPDOG_LOG', 'debug: log on stderr what was learned and decided; trace: each read too'],
  ['NO_COLOR', 'no colours when it is set'],
]
