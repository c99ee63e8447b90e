// Options of a session, in the form that the core takes.
import { serverSpecs } from '../mcp_server'
import { agentSpec, type HarnessOptions } from '../request'
import type { OpenOptions } from './request'
import type { ToolServer } from './tool_server'

/** Options that a harness's turns and its sessions have in common. */
const sharedNames = [
  ...(['binary', 'cwd', 'env', 'inheritEnv', 'killGraceMs', 'containment', 'signal'] as const),
  ...(['model', 'systemPrompt', 'redact', 'record', 'maxRecordBytes', 'name'] as const),
  ...(['startTimeoutMs', 'idleTimeoutMs', 'toolIdleTimeoutMs', 'timeoutMs'] as const),
  ...(['maxTokens', 'maxCostUsd', 'prices', 'budget', 'permission', 'allow', 'sandbox'] as const),
  ...(['retry', 'mcpServers'] as const),
] satisfies (keyof HarnessOptions & keyof OpenOptions)[]

/** The options of a session: its own, and for the rest those of its harness. */
export function mergedOptions(defaults: HarnessOptions, options: OpenOptions | undefined): OpenOptions {
  const merged: OpenOptions = { ...openDefaults(defaults), ...given(options) }
  if (defaults.env && options?.env) merged.env = { ...defaults.env, ...options.env }
  if (defaults.retry && options?.retry) merged.retry = { ...defaults.retry, ...options.retry }
  // `allow` belongs to "edit" and "ask"; a session at another level drops it.
  const { permission, allow } = options ?? {}
  if ((permission === 'plan' || permission === 'auto') && !allow) delete merged.allow
  return merged
}

function openDefaults(options: HarnessOptions): OpenOptions {
  return given(Object.fromEntries(sharedNames.map((name) => [name, options[name]])))
}

function given<T extends object>(options: T | undefined): T {
  return Object.fromEntries(Object.entries(options ?? {}).filter(([, value]) => value !== undefined)) as T
}

/** The specification that crosses to the core; the options are checked. */
export function openSpec(
  provider: HarnessOptions['provider'],
  options: OpenOptions,
  tools: ToolServer | undefined,
) {
  const { policy, allow, mcpServers = [], onPermission, permissionTimeoutMs, settleMs, retry } = options
  const servers = serverSpecs(mcpServers)
  const asks = onPermission !== undefined || policy !== undefined
  return {
    agent: agentSpec({
      ...options,
      provider,
      permission: options.permission ?? (asks ? 'ask' : undefined),
      redact: tools ? [...(options.redact ?? []), tools.token] : options.redact,
    }),
    commands: allow,
    allow: policy?.allow ?? [],
    deny: policy?.deny ?? [],
    hasHandler: onPermission !== undefined,
    permissionTimeoutMs,
    servers: tools ? [tools.server, ...servers] : servers,
    settleMs,
    waitForResetMs: retry?.waitForResetMs,
  }
}
