// Options of a session, in the form that the core takes.
import type { AgentSpec, OpenSpec } from '../../../native/native'
import { givenOf, snapshot, type Crossing, type NothingLeft } from '../../option'
import { checkNoCheckout } from '../checkout'
import { serverSpecs } from '../mcp_server'
import { agentSpec, harnessChecks, type HarnessOptions } from '../request'
import { openChecks, type OpenOptions } from './request'
import type { ToolServer } from './tool_server'

/** Options that a session does not take from its harness: `tools` means something else, and `resume` names another conversation. */
const ownNames = ['tools', 'resume'] as const

type SharedName = Exclude<keyof HarnessOptions & keyof OpenOptions, (typeof ownNames)[number]>

/** Every other option that turns and sessions both have is the harness's, unless the session sets it. */
const sharedNames = Object.keys(openChecks).filter(
  (name) => Object.hasOwn(harnessChecks, name) && !(ownNames as readonly string[]).includes(name),
) as SharedName[]

/** The options of a session: its own, and for the rest those of its harness. */
export function mergedOptions(defaults: HarnessOptions, options: OpenOptions | undefined): OpenOptions {
  const given = snapshot(options)
  const merged: OpenOptions = { ...openDefaults(defaults), ...given }
  if (defaults.env && given.env) merged.env = { ...defaults.env, ...given.env }
  if (defaults.retry && given.retry) merged.retry = { ...defaults.retry, ...given.retry }
  // `allow` belongs to "edit" and "ask"; a session at another level drops it.
  const { permission, allow } = given
  if ((permission === 'plan' || permission === 'auto') && !allow) delete merged.allow
  return merged
}

function openDefaults(options: HarnessOptions): OpenOptions {
  // An option that means something else in a session does not compile here: it belongs into `ownNames`.
  const shared = (): Pick<HarnessOptions, SharedName> => options
  return givenOf(
    Object.fromEntries(sharedNames.map((name) => [name, shared()[name]])) as ReturnType<typeof shared>,
  )
}

/** The specification that crosses to the core; the options are checked. */
export function openSpec(
  provider: HarnessOptions['provider'],
  options: OpenOptions,
  toolServer: ToolServer | undefined,
): OpenSpec {
  const {
    policy,
    allow,
    mcpServers = [],
    onPermission,
    onElicitation,
    permissionTimeoutMs,
    settleMs,
    retry = {},
    tools = [],
    signal: _,
    budget: __,
    changes,
    worktree,
    ...agent
  } = options
  checkNoCheckout({ changes, worktree })
  agent satisfies Crossing<typeof agent, AgentSpec & { inheritEnv: unknown }>
  const { waitForResetMs, ...forgotten } = retry
  forgotten satisfies NothingLeft<typeof forgotten>
  const servers = serverSpecs(mcpServers)
  const asks = onPermission !== undefined || policy !== undefined
  return {
    agent: agentSpec({
      ...agent,
      provider,
      permission: agent.permission ?? (asks ? 'ask' : undefined),
      redact: toolServer ? [...(agent.redact ?? []), toolServer.token] : agent.redact,
    }),
    commands: allow,
    allow: policy?.allow ?? [],
    deny: policy?.deny ?? [],
    hasHandler: onPermission !== undefined,
    hasElicitationHandler: onElicitation !== undefined,
    permissionTimeoutMs,
    servers: toolServer ? [toolServer.server, ...servers] : servers,
    tools: tools.map(({ name, readOnly = false }) => ({ name, readsOnly: readOnly })),
    settleMs,
    waitForResetMs,
  }
}
