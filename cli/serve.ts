// sheepdog serve: a runtime for a sandbox.
import type { SheepdogError } from '../lib/error'
import type { HarnessOptions, ProviderName } from '../lib/harness'
import { providerNames } from '../lib/harness/provider'
import { serveRuntime, type AgentHandler } from '../lib/runtime'
import { environment, timers, variable } from '../lib/host'
import { parseArguments, UsageError } from './arguments'
import { type Ending, type OptionTable, setting, flag, portOption, several } from './command'
import { loadModule } from './file'
import { onInterrupt } from './interrupt'
import { recordOptions } from './record'
import { print } from './screen'
import { tellOfStrays } from './stray'
import { hostOptions, levelOptions, toAgentSandbox, withoutWorkspace } from './sandbox'

export const summary = 'serve an agent and commands over WebSocket'

export const forms = ['[options]']

export const about = `
Serves a runtime. Clients run commands here, ask an agent, and get the files that it makes. Without --handler and
--agent only commands are run.`

export const options = {
  handler: setting(
    'FILE',
    'a module whose default export, or export "handler", has a method run(invocation, sender)',
  ),
  agent: setting('PROVIDER', 'a coding agent of this machine answers prompts', providerNames()),
  'keep-session': flag('keep one agent process for all prompts of a client'),
  ...levelOptions,
  'agent-host': several(
    'NAME',
    'a host that the agent may reach, such as api.example.com, and no other; may be repeated; implies --sandbox',
  ),
  secret: hostOptions.secret,
  ...recordOptions,
  port: portOption('port; 0 picks a free one (default 8080)'),
  host: setting('H', 'address (default 127.0.0.1); one that others can reach needs --token'),
  token: setting(
    'T',
    'token that clients send (default, and with --sandbox the only way: the variable SHEEPDOG_RUNTIME_TOKEN)',
  ),
  'allow-origin': several('O', 'let browsers of this origin connect; may be repeated'),
} as const satisfies OptionTable

export const notes = `
Prints "RuntimeUse server listening on port N" when clients can connect. Ctrl-C or SIGTERM ends it: at once if nothing
runs, else when uploads are finished, within 10 s.`

export const examples = ['sheepdog serve --agent codex', 'sheepdog serve --handler agent.mjs --port 0']

/** Options that limit an agent. */
const ofAgent = [
  'permission',
  'allow',
  'sandbox',
  'write',
  'read',
  'network',
  'socket',
  'agent-host',
  'secret',
] as const

/** Limits need an agent, and its sandbox a token that the agent cannot read. */
function checkLimits(
  values: AgentValues & { permission?: string; allow?: string[]; token?: string },
  hasAgent: boolean,
): void {
  const idle = !hasAgent && ofAgent.find((name) => values[name] !== undefined)
  if (idle)
    throw new UsageError(
      `--${idle}: limits an agent, and needs --agent: the commands of clients and a handler run without limits`,
    )
  if (values.token !== undefined && sandboxOf(values))
    throw new UsageError(
      '--token: an agent in a sandbox can read the command lines of other processes: set the variable SHEEPDOG_RUNTIME_TOKEN instead',
    )
}

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals } = parseArguments(withoutWorkspace(args), options)
  if (positionals.length > 0) throw new UsageError(`unexpected ${JSON.stringify(positionals[0])}`)
  const provider =
    values.handler === undefined && values.agent !== undefined ? toProvider(values.agent) : undefined
  checkLimits(values, provider !== undefined)
  const token = values.token ?? (variable('SHEEPDOG_RUNTIME_TOKEN') || undefined)
  // Commands and agents must not inherit the token: it says who may come in.
  delete environment().SHEEPDOG_RUNTIME_TOKEN
  const server = await serveRuntime({
    handler: values.handler === undefined ? undefined : await loadHandler(values.handler),
    provider,
    harness: provider && { ...toHarness(values), record: values.record, name: values.name },
    keepSession: values['keep-session'],
    port: values.port,
    host: values.host,
    token,
    allowedOrigins: values['allow-origin'],
  }).catch((error: SheepdogError) => {
    if (error.code !== 'INVALID_OPTION') throw error
    if (error.message.startsWith('host:'))
      throw new UsageError(`--${error.message}: --token T, or the variable SHEEPDOG_RUNTIME_TOKEN`)
    if (error.message.startsWith('token: is required'))
      throw new UsageError(`${error.message}. Set the variable SHEEPDOG_RUNTIME_TOKEN`)
    throw error
  })
  const interrupt = onInterrupt(
    () => void server.close(),
    () => process.exit(1),
  )
  // A rejection that a handler left unhandled does not end the other sessions.
  tellOfStrays('sheepdog serve')
  print(`RuntimeUse server listening on port ${server.port}`)
  await server.closed
  interrupt.end()
  // Nor do its timers and sockets keep a closed server alive. The status is set by then.
  timers.setTimeout(() => process.exit(), 100).unref()
  return 0
}

type AgentValues = Omit<NonNullable<Parameters<typeof toAgentSandbox>[0]>, 'host'> & {
  'agent-host'?: string[]
}

/** `--host` is the server's own address here. */
function sandboxOf(values: AgentValues) {
  return toAgentSandbox({ ...values, host: values['agent-host'] })
}

function toHarness(values: AgentValues & { permission?: string; allow?: string[] }) {
  const permission = values.permission as HarnessOptions['permission']
  return { permission, allow: values.allow, sandbox: sandboxOf(values) }
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
  const module = await loadModule('--handler', path)
  const candidates = [module.default, module.handler, module.default?.default, module.default?.handler]
  const handler = candidates.find((candidate) => typeof candidate?.run === 'function')
  if (!handler) throw new UsageError(`--handler: ${path} has no handler: export an object with a method run`)
  return handler
}
