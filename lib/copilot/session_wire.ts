// A session's configuration as it goes over the wire.
import { invalidOptions } from '../error'
import { check } from '../option'
import { toJsonSchema } from '../tool/definition'
import type { MCPServerConfig } from './agent_config'
import { splitProviders } from './model'
import type { ResumeSessionConfig, SessionConfig, SessionConfigBase } from './session_config'
import { forEmptyMode, splitSystemMessage } from './system_message'
import { toFilterList } from './tool'

type AnyConfig = SessionConfig & ResumeSessionConfig

/** Options that go over as they are. */
const asTheyAre = [
  'model',
  'clientName',
  'reasoningEffort',
  'reasoningSummary',
  'contextTier',
  'toolSearch',
  'requestCanvasRenderer',
  'requestExtensions',
  'extensionSdkPath',
  'extensionInfo',
  'canvasProvider',
  'excludedBuiltinAgents',
  'capi',
  'models',
  'enableSessionTelemetry',
  'enableCitations',
  'enableFileChangeTracking',
  'sessionLimits',
  'modelCapabilities',
  'askUserVariant',
  'workingDirectory',
  'additionalDirectories',
  'streaming',
  'mcpOAuthTokenStorage',
  'authClientIdMetadataUrl',
  'customAgentsLocalOnly',
  'defaultAgent',
  'agent',
  'enableConfigDiscovery',
  'skipEmbeddingRetrieval',
  'embeddingCacheStorage',
  'organizationCustomInstructions',
  'enableOnDemandInstructionDiscovery',
  'enableFileHooks',
  'enableHostGitOperations',
  'enableSessionStore',
  'enableSkills',
  'skillDirectories',
  'pluginDirectories',
  'instructionDirectories',
  'disabledSkills',
  'disabledMcpServers',
  'infiniteSessions',
  'memory',
  'gitHubToken',
  'remoteSession',
  'featureFlags',
  'expAssignments',
  'enableManagedSettings',
  'managedSettings',
  'diagnostics',
] as const satisfies (keyof AnyConfig)[]

/** A session of an empty-mode client has nothing that it was not given. */
const emptyModeDefaults: Partial<SessionConfigBase> = {
  enableSessionTelemetry: false,
  mcpOAuthTokenStorage: 'in-memory',
  skipEmbeddingRetrieval: true,
  embeddingCacheStorage: 'in-memory',
  enableOnDemandInstructionDiscovery: false,
  enableFileHooks: false,
  enableHostGitOperations: false,
  enableSessionStore: false,
  enableSkills: false,
  memory: { enabled: false },
  customAgentsLocalOnly: true,
}

/** The configuration with the defaults of the client's mode. */
export function withModeDefaults<T extends SessionConfigBase>(config: T, isEmptyMode: boolean): T {
  if (!isEmptyMode) return { ...config }
  const merged = { ...emptyModeDefaults, ...config }
  merged.customAgentsLocalOnly ??= true
  merged.systemMessage = forEmptyMode(config.systemMessage)
  merged.enableExperimentalMode ??= false
  if (merged.availableTools === undefined) {
    throw invalidOptions(
      "CopilotClient is in mode: 'empty' but the session config did not specify 'availableTools'. Empty mode requires " +
        'every session to explicitly opt into the tools it wants \u2014 e.g. `new ToolSet().addBuiltIn(BuiltInTools.Isolated)`.',
    )
  }
  return merged
}

/** Parameters of `session.create` and `session.resume`; what both take means the same. */
export function toWireConfig(config: AnyConfig): Record<string, unknown> {
  for (const field of ['tools', 'canvases', 'commands', 'customAgents', 'providers'] as const)
    if (config[field] != null) check.listOf(check.object)(field, config[field])
  const wire: Record<string, unknown> = {}
  for (const name of asTheyAre) wire[name] = config[name]
  const { provider, providers } = splitProviders(config.provider, config.providers)
  return {
    ...wire,
    isExperimentalMode: config.enableExperimentalMode,
    tools: config.tools?.map((tool) => ({
      name: tool.name,
      description: tool.description,
      parameters: toJsonSchema(tool.parameters),
      overridesBuiltInTool: tool.overridesBuiltInTool,
      skipPermission: tool.skipPermission,
      defer: tool.defer,
      metadata: tool.metadata,
      isTerminal: tool.isTerminal,
    })),
    canvases: config.canvases?.map((canvas) => canvas.declaration),
    commands: config.commands?.map(({ name, description }) => ({ name, description: description ?? '' })),
    systemMessage: splitSystemMessage(config.systemMessage).wire,
    availableTools: toFilterList('availableTools', config.availableTools),
    excludedTools: toFilterList('excludedTools', config.excludedTools),
    toolFilterPrecedence: 'excluded',
    provider,
    providers,
    largeOutput: renameField(config.largeOutput, 'outputDirectory', 'outputDir'),
    requestUserInput: !!config.onUserInputRequest,
    requestElicitation: !!config.onElicitationRequest,
    requestExitPlanMode: !!config.onExitPlanModeRequest,
    requestAutoModeSwitch: !!config.onAutoModeSwitchRequest,
    requestMcpApps: config.enableMcpApps ? true : undefined,
    githubMcpToolConfig: config.githubMcpToolConfig ?? undefined,
    hooks: !!config.hooks && Object.values(config.hooks).some(Boolean),
    includeSubAgentStreamingEvents: config.includeSubAgentStreamingEvents ?? true,
    mcpServers: toWireServers('mcpServers', config.mcpServers),
    envValueMode: 'direct',
    customAgents: config.customAgents?.map((agent, index) =>
      agent.mcpServers
        ? { ...agent, mcpServers: toWireServers(`customAgents[${index}].mcpServers`, agent.mcpServers) }
        : agent,
    ),
    configDir: config.configDirectory,
  }
}

/** Options that only `session.create` takes. */
export function toWireCreate(config: SessionConfig): Record<string, unknown> {
  const { onPermissionRequest, cloud, refreshCustomInstructions } = config
  return { requestPermission: !!onPermissionRequest, cloud, refreshCustomInstructions }
}

/** Options that only `session.resume` takes. */
export function toWireResume(config: ResumeSessionConfig): Record<string, unknown> {
  return {
    requestPermission: true,
    disableResume: config.suppressResumeEvent,
    continuePendingWork: config.continuePendingWork,
    openCanvases: config.openCanvases,
  }
}

/** Options that go over after the session is open (`session.options.update`); undefined when there are none. */
export function toWireOptions(
  config: SessionConfigBase,
  isEmptyMode: boolean,
): Record<string, unknown> | undefined {
  const patch: Record<string, unknown> = {
    skipCustomInstructions: config.skipCustomInstructions ?? (isEmptyMode ? true : undefined),
    customAgentsLocalOnly: config.customAgentsLocalOnly ?? (isEmptyMode ? true : undefined),
    coauthorEnabled: config.coauthorEnabled ?? (isEmptyMode ? false : undefined),
    manageScheduleEnabled: config.manageScheduleEnabled ?? (isEmptyMode ? false : undefined),
    installedPlugins: isEmptyMode ? [] : undefined,
    includedBuiltinSkills: config.includedBuiltinSkills ?? (isEmptyMode ? [] : undefined),
  }
  return Object.values(patch).some((value) => value !== undefined) ? patch : undefined
}

function renameField(value: object | undefined, from: string, to: string): unknown {
  if (!value || typeof value !== 'object' || !(from in value)) return value
  const { [from]: moved, ...rest } = value as Record<string, unknown>
  return { ...rest, [to]: moved }
}

function toWireServers(path: string, servers: Record<string, MCPServerConfig> | undefined): unknown {
  if (!servers) return undefined
  check.recordOf(check.object)(path, servers)
  return Object.fromEntries(
    Object.entries(servers).map(([name, server]) => [name, renameField(server, 'workingDirectory', 'cwd')]),
  )
}
