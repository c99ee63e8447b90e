// sheepdog acp: an agent of the Agent Client Protocol on stdin and stdout, with any agent behind it.
import { finished } from 'node:stream/promises'
import { Harness, type ServeOptions } from '../lib/index'
import { providerNames } from '../lib/harness/provider'
import { timers } from '../lib/host'
import { commandOptions, policyOption, protocolProgramOption, whom } from './agent_command'
import { parseArguments, UsageError } from './arguments'
import { counted, type Ending, environmentOption, type OptionTable, setting } from './command'
import { onInterrupt } from './interrupt'
import { recordOptions } from './record'
import { logStream } from './screen'
import { hostOptions, levelOptions, toAgentSandbox, withoutWorkspace } from './sandbox'
import { toOptions } from './words'

export const summary = 'serve an agent to an editor, over the Agent Client Protocol'

export const forms = ['PROVIDER [options]', '[options] -- COMMAND [ARGUMENTS]']

export const about = `
Is an agent of the Agent Client Protocol on stdin and stdout, for editors and for programs in any language. The agent
behind it runs under the guard, at its permission level, within its time limits and budget, and on record. All other
messages pass with all their members. What the agent writes to stderr goes to stderr. When the client closes stdin, or is killed,
nothing of the agent is left.

A COMMAND is any other agent: a program that speaks the Agent Client Protocol.`

export const operands = [{ name: 'PROVIDER', fits: providerNames() }] as const

export const options = {
  ...levelOptions,
  ...hostOptions,
  ...commandOptions,
  permission: setting(
    'LEVEL',
    'permission level: plan, edit, ask (the client is asked; the default) or auto',
    ['plan', 'edit', 'ask', 'auto'],
  ),
  policy: policyOption,
  model: setting('NAME', 'model that the agent uses'),
  cwd: setting('FOLDER', 'folder of the agent, and of its sandbox (default: the current one)'),
  env: environmentOption,
  binary: protocolProgramOption,
  'max-tokens': counted('tokens that all its turns together may use'),
  idle: setting(
    'DURATION',
    'end a turn after this long without a message (default 300s; 900s while a tool runs)',
  ),
  timeout: setting('DURATION', 'end a turn after this long in total (default 30m)'),
  ...recordOptions,
} as const satisfies OptionTable

export const notes = `
Exit status: 0 when the client closed stdin, 2 for a wrong command line, else 1, with the reason on stderr.`

export const examples = [
  'sheepdog acp claude-code',
  'sheepdog acp gemini --sandbox --idle 2m',
  'sheepdog acp --sandbox -- cline --acp',
]

/** How long a reader of the log may hold up the end; nothing of the agent is left by then. */
const partingMs = 2000

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals, command } = parseArguments(withoutWorkspace(args), options)
  const { provider, words: rest } = whom(positionals, command, values)
  if (!provider) throw new UsageError('an agent is needed: sheepdog acp PROVIDER, or sheepdog acp -- COMMAND')
  if (rest.length > 0) throw new UsageError(`${JSON.stringify(rest[0])} was not expected`)
  const serveOptions: ServeOptions = {
    toolIdleTimeoutMs: values.idle,
    ...toOptions<ServeOptions>(values),
    sandbox: toAgentSandbox(values),
  }
  const controller = new AbortController()
  const interrupt = onInterrupt(() => controller.abort())
  const log = logStream('stderr')
  try {
    const client = { input: process.stdin, output: process.stdout, log }
    await new Harness({ provider }).serve(client, { ...serveOptions, signal: controller.signal })
    return 0
  } catch (error) {
    if (interrupt.signal) return interrupt.signal
    throw error
  } finally {
    interrupt.end()
    process.stdin.destroy()
    log.end()
    const parting = new Promise((done) => timers.setTimeout(done, partingMs).unref())
    await Promise.race([finished(log), parting])
  }
}
