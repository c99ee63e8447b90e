// sheepdog view: runs, live and on record, on a local web page.
import { existsSync } from 'node:fs'
import { parseArguments, UsageError } from './arguments'
import type { Ending, OptionTable } from './command'
import { onInterrupt } from './interrupt'
import { recordsFolder } from './record'
import { RecordSource } from './view/record_source'
import { serveView } from './view/server'

export const summary = 'runs, live and on record, on a local web page'

export const forms = ['[FOLDER] [options]']

export const about = `
Shows the runs that --record FOLDER keeps (default: ${recordsFolder}), or one of them when its own folder is named: a time
line, events as they come, tokens and cost, processes. The page is served to this machine alone, under an address that
nobody can guess and that is printed; Ctrl-C ends it.`

export const operands = [{ name: 'FOLDER', fits: 'folder' }] as const

export const options = {
  'allow-stop': { type: 'boolean', help: 'the page has a button that ends a run' },
  port: { type: 'string', value: 'N', help: 'default: any' },
} as const satisfies OptionTable

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals } = parseArguments(args, options)
  const [folder = recordsFolder, ...rest] = positionals
  if (rest.length > 0) throw new UsageError(`unexpected ${JSON.stringify(rest[0])}`)
  const port = values.port === undefined ? 0 : Number(values.port)
  if (!(Number.isInteger(port) && port >= 0 && port <= 65_535)) {
    throw new UsageError(`--port: expected a number between 0 and 65535, got ${JSON.stringify(values.port)}`)
  }
  if (!existsSync(folder)) {
    const how = 'keep runs on record with --record FOLDER, and name that folder here'
    if (positionals.length > 0) throw new UsageError(`there is no folder ${folder}: ${how}`)
    process.stderr.write(`sheepdog: there is no ${folder} yet: ${how}\n`)
  }
  const view = await serveView({
    source: await RecordSource.open(folder),
    port,
    allowStop: values['allow-stop'],
  })
  process.stdout.write(`${view.url}\n`)
  await new Promise<void>((resolve) => {
    const done = onInterrupt(
      () => {
        done()
        resolve()
      },
      () => process.exit(1),
    )
  })
  await view.close()
  return 0
}
