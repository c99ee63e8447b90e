// sheepdog work: a worker of a fleet.

import { Fleet, type JobHandler } from '../lib/fleet'
import { timers } from '../lib/host'
import { parseArguments, UsageError } from './arguments'
import { counted, type Ending, type OptionTable, several, setting } from './command'
import { loadModule } from './file'
import { fleetOptions, fleetTable } from './fleet_way'
import { onInterrupt } from './interrupt'
import { tell } from './screen'
import { tellOfStrays } from './stray'

export const summary = 'run the jobs of a fleet on this machine'

export const forms = ['[options]']

export const about = `
Pulls jobs and runs them here, with the agents of this machine, until it is ended. On Ctrl-C or SIGTERM it starts no new
job. Running jobs may finish; after --drain other workers get them. A second Ctrl-C does not wait.`

export const options = {
  queue: several('Q', 'pull from this queue; may be repeated (default: "default")'),
  concurrency: counted('jobs at once (default 4)'),
  name: setting('NAME', 'name of this worker in records'),
  handlers: setting('FILE', 'ES module whose default export is a table of handlers, which run your own code'),
  drain: setting('DURATION', 'how long running jobs may continue at the end (default 60s)'),
  'git-dir': setting('FOLDER', 'folder for checkouts of jobs with --git (default ~/.cache/sheepdog/git)'),
  ...fleetTable,
} as const satisfies OptionTable

export const examples = ['sheepdog work --concurrency 8']

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals } = parseArguments(args, options)
  if (positionals.length > 0) throw new UsageError(`unexpected ${JSON.stringify(positionals[0])}`)
  const handlers = values.handlers === undefined ? undefined : await loadHandlers(values.handlers)
  const fleet = await Fleet.connect(fleetOptions(values))
  const worker = await fleet.work({
    queues: values.queue,
    concurrency: values.concurrency,
    name: values.name,
    handlers,
    drainTimeoutMs: values.drain,
    git: { dir: values['git-dir'] },
  })
  tell(`sheepdog: ${worker.name} works on ${(values.queue ?? ['default']).join(', ')}; Ctrl-C drains`)
  const interrupt = onInterrupt(
    () => {
      tell('sheepdog: draining')
      void worker.close()
    },
    () => process.exit(1),
  )
  const forget = tellOfStrays('sheepdog work')
  await worker.closed
  await fleet.close()
  forget()
  interrupt.end()
  // Handlers may have left timers and sockets. The status is set by then.
  timers.setTimeout(() => process.exit(), 100).unref()
  return 0
}

async function loadHandlers(path: string): Promise<Record<string, JobHandler>> {
  const module = await loadModule('--handlers', path)
  const candidates = [module.default?.default, module.default]
  const table = candidates.find(
    (candidate) =>
      typeof candidate === 'object' &&
      candidate !== null &&
      Object.values(candidate).some((one) => typeof one === 'function'),
  )
  if (!table)
    throw new UsageError(
      `--handlers: the default export of ${path} must be an object whose values are functions`,
    )
  return table
}
