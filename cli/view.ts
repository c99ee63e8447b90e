// sheepdog view: runs, live and on record, on a local web page.
import { existsSync } from 'node:fs'
import { parseArguments, UsageError } from './arguments'
import { type Ending, type OptionTable, flag, portOption } from './command'
import { untilInterrupt } from './interrupt'
import { recordsFolder } from './record'
import { fleetOptions, fleetTable } from './fleet_way'
import { print, tell } from './screen'
import { Fleet } from '../lib/fleet'
import { FleetSource } from './view/fleet_source'
import { RecordSource } from './view/record_source'
import type { RunSource } from './view/source'
import { serveView } from './view/server'

export const summary = 'show runs, live and recorded, on a local web page'

export const forms = ['[FOLDER] [options]', '--fleet [options]']

export const about = `
Shows the runs that --record FOLDER keeps (default: ${recordsFolder}), or one of them if its own folder is named. The page
has a time line, events as they come, tokens and cost, and processes. It is served to this machine alone, under a secret
address that is printed. Ctrl-C ends it.

With --fleet it shows the newest 500 jobs of a fleet instead, with their live logs. The time line of a job begins when it
was submitted.`

export const operands = [{ name: 'FOLDER', fits: 'folder' }] as const

export const options = {
  'allow-stop': flag('add a button that stops a run'),
  port: portOption('port (default: a free one)'),
  fleet: flag('show the jobs of the fleet that the options below name'),
  ...fleetTable,
} as const satisfies OptionTable

export const examples = ['sheepdog view', 'sheepdog view --allow-stop /var/log/agents']

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals } = parseArguments(args, options)
  const [folder = recordsFolder, ...rest] = positionals
  if (rest.length > 0) throw new UsageError(`unexpected ${JSON.stringify(rest[0])}`)
  if (values.fleet && positionals.length > 0) throw new UsageError('--fleet takes no FOLDER')
  const fleet = values.fleet ? await Fleet.connect(fleetOptions(values)) : undefined
  const source = fleet
    ? new FleetSource(fleet, 'jobs of the fleet')
    : await records(folder, positionals.length > 0)
  const view = await serveView({ source, port: values.port, allowStop: values['allow-stop'] })
  print(view.url)
  await untilInterrupt()
  await view.close()
  if (source instanceof FleetSource) source.close()
  await fleet?.close()
  return 0
}

async function records(folder: string, isNamed: boolean): Promise<RunSource> {
  if (!existsSync(folder)) {
    const how = 'keep runs on record with --record FOLDER, and name that folder here'
    if (isNamed) throw new UsageError(`the folder ${folder} does not exist: ${how}`)
    tell(`sheepdog: there is no ${folder} yet: ${how}`)
  }
  return RecordSource.open(folder)
}
