// sheepdog serve: a runtime for a sandbox.
import { pathToFileURL } from 'node:url'
import { resolve } from 'node:path'
import { inspect } from 'node:util'
import type { SheepdogError } from '../lib/error'
import type { HarnessOptions, ProviderName } from '../lib/harness'
import { providerNames } from '../lib/harness/provider'
import { serveRuntime, type AgentHandler } from '../lib/runtime'
import { parseArguments, UsageError } from './arguments'
import type { Ending, OptionTable } from './command'
import { onInterrupt } from './interrupt'
import { recordOptions } from './record'
import { levelOptions, toAgentSandbox, withoutWorkspace } from './sandbox'

export const summary = 'serve an agent, and commands, behind a WebSocket'

export const forms = ['[options]']

export const about = `
Serves a runtime: clients run commands and ask an agent here, and get the files it makes. Without --handler and
--agent only commands are run.`

export const options = {
  handler: {
    type: 'string',
    value: 'FILE',
    fits: 'file',
    help: 'a module whose default export has a method run(invocation, sender), or with such an export named "handler"',
  },
  agent: {
    type: 'string',
    value: 'PROVIDER',
    fits: providerNames(),
    help: 'a coding agent of this machine, as of sheepdog agent',
  },
  'keep-session': {
    type: 'boolean',
    help: 'one process of the agent for all the prompts of a client, which it remembers',
  },
  ...levelOptions,
  ...recordOptions,
  port: { type: 'string', value: 'N', help: 'default 8080; 0: any' },
  host: {
    type: 'string',
    value: 'H',
    help: 'default 127.0.0.1; an address that others can reach needs --token',
  },
  token: {
    type: 'string',
    value: 'T',
    help: 'clients have to send it (default, and with --sandbox the only way: the variable SHEEPDOG_RUNTIME_TOKEN)',
  },
  'allow-origin': {
    type: 'string',
    multiple: true,
    value: 'O',
    help: 'lets browsers of this origin in; may be given more than once',
  },
} as const satisfies OptionTable

export const notes = `
Prints "RuntimeUse server listening on port N" when clients can connect. Ctrl-C or SIGTERM ends it: at once when
nothing runs, else when uploads are through, within 10 s.`

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals } = parseArguments(withoutWorkspace(args), options)
  if (positionals.length > 0) throw new UsageError(`unexpected ${JSON.stringify(positionals[0])}`)
  const port = values.port === undefined ? undefined : Number(values.port)
  if (port !== undefined && !(Number.isInteger(port) && port >= 0 && port <= 65535)) {
    throw new UsageError(`--port: expected a number between 0 and 65535, got ${JSON.stringify(values.port)}`)
  }
  const provider =
    values.handler === undefined && values.agent !== undefined ? toProvider(values.agent) : undefined
  if (values.token !== undefined && toAgentSandbox(values))
    throw new UsageError(
      '--token: an agent in a sandbox can read the command lines of other processes: set the variable SHEEPDOG_RUNTIME_TOKEN instead',
    )
  const token = values.token ?? (process.env.SHEEPDOG_RUNTIME_TOKEN || undefined)
  // What runs here is no business of who may come in: no command and no agent inherits it.
  delete process.env.SHEEPDOG_RUNTIME_TOKEN
  const server = await serveRuntime({
    handler: values.handler === undefined ? undefined : await loadHandler(values.handler),
    provider,
    harness: provider && { ...toHarness(values), record: values.record, name: values.name },
    keepSession: values['keep-session'],
    port,
    host: values.host,
    token,
    allowedOrigins: values['allow-origin'],
  }).catch((error: SheepdogError) => {
    if (error.code !== 'INVALID_OPTION') throw error
    if (error.message.startsWith('host:'))
      throw new UsageError(`--${error.message}: --token T, or the variable SHEEPDOG_RUNTIME_TOKEN`)
    if (error.message.startsWith('token: is needed'))
      throw new UsageError(`${error.message}. Set the variable SHEEPDOG_RUNTIME_TOKEN`)
    throw error
  })
  const done = onInterrupt(
    () => void server.close(),
    () => process.exit(1),
  )
  // What a handler leaves lying about is no reason to end the other sessions.
  const onStray = (error: unknown) => {
    const words = error instanceof Error ? (error.stack ?? error.message) : inspect(error)
    process.stderr.write(`sheepdog serve: the handler left an error behind: ${words}\n`)
  }
  process.on('unhandledRejection', onStray)
  process.on('uncaughtException', onStray)
  process.stdout.write(`RuntimeUse server listening on port ${server.port}\n`)
  await server.closed
  done()
  // Nor do its timers and sockets keep a closed server alive. The status is set by then.
  setTimeout(() => process.exit(), 100).unref()
  return 0
}

function toHarness(values: Parameters<typeof toAgentSandbox>[0] & { permission?: string; allow?: string[] }) {
  const permission = values.permission as HarnessOptions['permission']
  return { permission, allow: values.allow, sandbox: toAgentSandbox(values) }
}

/** The agent's name here; some know it by a shorter one. */
function toProvider(name: string): ProviderName {
  const names = providerNames()
  const provider = names.find((known) => known === (name === 'claude' ? 'claude-code' : name))
  if (provider === undefined)
    throw new UsageError(`unknown agent ${JSON.stringify(name)}; there are ${names.join(', ')}`)
  return provider
}

async function loadHandler(path: string): Promise<AgentHandler> {
  const module = await import(pathToFileURL(resolve(path)).href)
  // A CommonJS module's exports are its default export.
  const candidates = [module.default, module.handler, module.default?.default, module.default?.handler]
  const handler = candidates.find((candidate) => typeof candidate?.run === 'function')
  if (!handler) throw new UsageError(`--handler: ${path} exports no handler: an object with a method run`)
  return handler
}
