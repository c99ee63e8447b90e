// Which commands there are. They are files of this folder, loaded when they are needed, so that one that is broken or absent never
// stands in the way of the others.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Command, NamedCommand } from './command'

/** In the order of the help. */
export const names = [
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
  [
    'SHEEPDOG_IDLE_SECONDS',
    'how long a program may be silent, where --idle does not say it; 0 or less: as long as it likes',
  ],
  ['SHEEPDOG_RUNTIME_TOKEN', 'the token of serve, query and exec, out of sight of `ps`'],
  ['SHEEPDOG_NATS', 'the NATS server of work, submit, jobs and fleet'],
  ['SHEEPDOG_LOG', 'debug: tells on stderr what was heard and decided; trace: every read too'],
  ['NO_COLOR', 'when it is set, no colours'],
]
