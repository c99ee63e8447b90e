// sheepdog mcp: agents as tools of another agent, over the Model Context Protocol.
import { statSync } from 'node:fs'
import { Budget, type ProviderName, type TurnOptions } from '../lib/index'
import { providerNames } from '../lib/harness/provider'
import { ToolProtocol } from '../lib/harness/session/tool_protocol'
import { folderName } from '../lib/host'
import { parseArguments, UsageError } from './arguments'
import { counted, type Ending, type OptionTable, several, setting } from './command'
import { onInterrupt } from './interrupt'
import { Agents } from './mcp/agents'
import { serve } from './mcp/stdio'
import { toolsOf } from './mcp/tools'
import { recordOptions } from './record'
import { hostOptions, levelOptions, toAgentSandbox, withoutWorkspace } from './sandbox'
import { toOptions } from './words'

export const summary = 'offer coding agents to another agent, as an MCP server'

export const forms = ['[options]']

export const about = `
Serves the Model Context Protocol on stdin and stdout. Its tools start coding agents, report their progress, return
their answers and cancel them: start_agent, agent_status, agent_result, cancel_agent, list_agents. Each call returns
within 45 seconds, so a long turn outlives the time limit of the client. The providers, the folder, the permission level
and the budget are set here, not by the caller. When the client closes stdin, or is killed, all agents are ended.`

export const options = {
  provider: several('NAME', 'an agent that may be started; may be repeated (default: all)', providerNames()),
  cwd: setting(
    'FOLDER',
    'working directory of the agents; a call may name a folder below it (default: the current one)',
  ),
  ...levelOptions,
  ...hostOptions,
  'max-agents': counted('agents that may run at once (default 4)'),
  'max-tokens': counted('tokens that all agents together may use'),
  model: setting('NAME', 'model that the agents use'),
  idle: setting(
    'DURATION',
    'kill an agent after this long without output (default 300s; 900s while a tool runs)',
  ),
  timeout: setting('DURATION', 'stop an agent after this long in total (default 30m)'),
  ...recordOptions,
} as const satisfies OptionTable

export const notes = `
Exit status: 0 when the client closed stdin, 2 for a wrong command line, else 1.

Depth: an agent that is started here has SHEEPDOG_DEPTH in its environment, one more than this server. The fourth agent
in a chain is refused.`

export const examples = [
  'sheepdog mcp --provider codex --permission plan',
  'claude mcp add sheepdog -- sheepdog mcp --cwd . --sandbox',
]

export async function run(args: string[]): Promise<Ending> {
  const { values, positionals, command } = parseArguments(withoutWorkspace(args), options)
  const [extra] = [...positionals, ...(command ?? [])]
  if (extra !== undefined)
    throw new UsageError(`sheepdog mcp takes only options: ${JSON.stringify(extra)} was not expected`)
  const cwd = values.cwd ?? folderName()
  if (cwd === undefined) throw new UsageError('the working directory was deleted: pass --cwd')
  if (!statSync(cwd, { throwIfNoEntry: false })?.isDirectory())
    throw new UsageError(`--cwd: there is no folder ${JSON.stringify(cwd)}`)
  const { maxTokens, cwd: _, ...stated } = toOptions<TurnOptions>(values)
  const turnOptions: TurnOptions = {
    toolIdleTimeoutMs: values.idle,
    startTimeoutMs: values.idle,
    ...stated,
    sandbox: toAgentSandbox(values),
    budget: maxTokens === undefined ? undefined : new Budget({ maxTokens }),
  }
  const providers = providersOf(values.provider)
  const agents = new Agents({
    providers,
    cwd,
    maxAgents: values['max-agents'] ?? 4,
    options: turnOptions,
  })
  const protocol = new ToolProtocol(toolsOf(agents, providers))
  const interrupt = onInterrupt(() => process.stdin.destroy())
  try {
    await serve(protocol, process.stdin, process.stdout)
  } catch (error) {
    // Its own input was closed for the signal.
    if (interrupt.signal === undefined) throw error
  } finally {
    await agents.close()
    interrupt.end()
  }
  return interrupt.signal ?? 0
}

function providersOf(names: string[] | undefined): ProviderName[] {
  const known = providerNames()
  const wrong = names?.find((name) => !(known as string[]).includes(name))
  if (wrong !== undefined)
    throw new UsageError(`--provider: expected one of ${known.join(', ')}, got ${JSON.stringify(wrong)}`)
  return (names as ProviderName[] | undefined) ?? known
}
