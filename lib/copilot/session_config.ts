// A session's configuration, and how it goes over the wire.
import { SheepdogError, invalidOption } from '../error'
import { show } from '../option'
import type { Canvas } from './canvas'
import type { SessionEventHandler } from './event'
import type {
  DiagnosticsConfiguration,
  GitHubTokenAcquireRequest,
  GitHubTokenAcquireResult,
  OpenCanvasInstance,
  ReasoningSummary,
  RemoteSessionMode,
  SessionLimitsConfig,
} from './generated'
import type { SessionHooks } from './hook'
import {
  type CapiSessionOptions,
  type ContextTier,
  type ModelCapabilitiesOverride,
  type NamedProviderConfig,
  type ProviderConfig,
  type ProviderModelConfig,
  type ReasoningEffort,
  splitProviders,
} from './model'
import type { PermissionHandler } from './permission'
import type {
  AutoModeSwitchHandler,
  ElicitationHandler,
  ExitPlanModeHandler,
  McpAuthHandler,
  UserInputHandler,
} from './question'
import type { CopilotSession } from './session'
import type { SessionFsProvider } from './session_fs'
import { type SystemMessageConfig, forEmptyMode, splitSystemMessage } from './system_message'
import { type Tool, type ToolSearchConfig, type ToolSet, toFilterList, toJsonSchema } from './tool'

export interface CommandContext {
  sessionId: string
  command: string
  commandName: string
  args: string
}
export type CommandHandler = (context: CommandContext) => Promise<void> | void
export interface CommandDefinition {
  name: string
  description?: string
  handler: CommandHandler
}

interface MCPServerConfigBase {
  tools?: string[]
  type?: string
  timeout?: number
}
export interface MCPStdioServerConfig extends MCPServerConfigBase {
  type?: 'local' | 'stdio'
  command: string
  args?: string[]
  env?: Record<string, string>
  workingDirectory?: string
}
export interface MCPHTTPServerConfig extends MCPServerConfigBase {
  type: 'http' | 'sse'
  url: string
  headers?: Record<string, string>
}
export type MCPServerConfig = MCPStdioServerConfig | MCPHTTPServerConfig

export interface CustomAgentConfig {
  name: string
  displayName?: string
  description?: string
  tools?: string[] | null
  prompt: string
  mcpServers?: Record<string, MCPServerConfig>
  infer?: boolean
  skills?: string[]
  model?: string
  reasoningEffort?: ReasoningEffort
}
export interface DefaultAgentConfig {
  excludedTools?: string[]
}
export interface InfiniteSessionConfig {
  enabled?: boolean
  backgroundCompactionThreshold?: number
  bufferExhaustionThreshold?: number
}
export interface MemoryConfiguration {
  enabled: boolean
}
export interface LargeToolOutputConfig {
  enabled?: boolean
  maxSizeBytes?: number
  outputDirectory?: string
}
export interface ExtensionInfo {
  source: string
  name: string
}
export interface CanvasProviderIdentity {
  id: string
  name?: string
}
export interface GitHubMcpToolConfig {
  enableAllTools?: boolean
  additionalToolsets?: string[]
  additionalTools?: string[]
  enableInsidersMode?: boolean
  disableFormDeferral?: boolean
}
export interface ManagedSettingsPermissions {
  disableBypassPermissionsMode?: string
  deny?: string[]
  ask?: string[]
  allow?: string[]
}
export interface ManagedSettings {
  permissions?: ManagedSettingsPermissions
}
export type AskUserVariant = 'legacy' | 'elicitation'
export type ExpFlagValue = string | number | boolean | null
export interface ExpConfigEntry {
  Id: string
  Parameters: Record<string, ExpFlagValue>
}
export interface CopilotExpAssignmentResponse {
  Features: string[]
  Flights: Record<string, string>
  Configs: ExpConfigEntry[]
  ParameterGroups?: unknown
  FlightingVersion?: number
  ImpressionId?: string
  AssignmentContext: string
}
export interface CloudSessionRepository {
  owner: string
  name: string
  branch?: string
}
export interface CloudSessionOptions {
  repository?: CloudSessionRepository
}
export type GitHubTokenProviderArgs = Pick<GitHubTokenAcquireRequest, 'host' | 'sessionId' | 'reason'>
export type GitHubTokenProviderResult = GitHubTokenAcquireResult
export type GitHubTokenProvider = (
  args: GitHubTokenProviderArgs,
) => GitHubTokenProviderResult | Promise<GitHubTokenProviderResult>

/** What new and resumed sessions have in common. */
export interface SessionConfigBase {
  clientName?: string
  model?: string
  reasoningEffort?: ReasoningEffort
  reasoningSummary?: ReasoningSummary
  enableExperimentalMode?: boolean
  contextTier?: ContextTier
  modelCapabilities?: ModelCapabilitiesOverride
  /** Which diagnostics of its MCP servers the session keeps; runtimes since 1.0.89. */
  diagnostics?: DiagnosticsConfiguration
  largeOutput?: LargeToolOutputConfig
  configDirectory?: string
  enableConfigDiscovery?: boolean
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  tools?: Tool<any>[]
  canvases?: Canvas[]
  requestCanvasRenderer?: boolean
  requestExtensions?: boolean
  extensionSdkPath?: string
  extensionInfo?: ExtensionInfo
  canvasProvider?: CanvasProviderIdentity
  commands?: CommandDefinition[]
  systemMessage?: SystemMessageConfig
  toolSearch?: ToolSearchConfig
  availableTools?: string[] | ToolSet
  excludedTools?: string[] | ToolSet
  excludedBuiltinAgents?: string[]
  includedBuiltinSkills?: string[]
  provider?: ProviderConfig
  capi?: CapiSessionOptions
  providers?: NamedProviderConfig[]
  models?: ProviderModelConfig[]
  enableSessionTelemetry?: boolean
  enableCitations?: boolean
  enableFileChangeTracking?: boolean
  sessionLimits?: SessionLimitsConfig
  skipCustomInstructions?: boolean
  customAgentsLocalOnly?: boolean
  coauthorEnabled?: boolean
  manageScheduleEnabled?: boolean
  /** Without one, permissions stay open for another client, or for the program by RPC. */
  onPermissionRequest?: PermissionHandler
  onMcpAuthRequest?: McpAuthHandler
  onUserInputRequest?: UserInputHandler
  askUserVariant?: AskUserVariant
  onElicitationRequest?: ElicitationHandler
  enableMcpApps?: boolean
  githubMcpToolConfig?: GitHubMcpToolConfig
  onExitPlanModeRequest?: ExitPlanModeHandler
  onAutoModeSwitchRequest?: AutoModeSwitchHandler
  hooks?: SessionHooks
  workingDirectory?: string
  additionalDirectories?: string[]
  streaming?: boolean
  /** Default true. */
  includeSubAgentStreamingEvents?: boolean
  mcpOAuthTokenStorage?: 'persistent' | 'in-memory'
  authClientIdMetadataUrl?: string
  mcpServers?: Record<string, MCPServerConfig>
  customAgents?: CustomAgentConfig[]
  defaultAgent?: DefaultAgentConfig
  /** Name of the custom agent to begin with. */
  agent?: string
  skillDirectories?: string[]
  pluginDirectories?: string[]
  instructionDirectories?: string[]
  disabledSkills?: string[]
  disabledMcpServers?: string[]
  infiniteSessions?: InfiniteSessionConfig
  memory?: MemoryConfiguration
  gitHubToken?: string
  gitHubTokenProvider?: GitHubTokenProvider
  enableManagedSettings?: boolean
  managedSettings?: ManagedSettings
  skipEmbeddingRetrieval?: boolean
  embeddingCacheStorage?: 'persistent' | 'in-memory'
  organizationCustomInstructions?: string
  enableOnDemandInstructionDiscovery?: boolean
  enableFileHooks?: boolean
  enableHostGitOperations?: boolean
  enableSessionStore?: boolean
  enableSkills?: boolean
  remoteSession?: RemoteSessionMode
  /** As `session.on(handler)`, from before the first event. */
  onEvent?: SessionEventHandler
  /** Wanted when the client has `sessionFs`. */
  createSessionFsProvider?: (session: CopilotSession) => SessionFsProvider
  featureFlags?: Record<string, boolean>
  expAssignments?: CopilotExpAssignmentResponse
  /** Ends the wait for the session with SESSION_ABORTED; a session that comes all the same is let go. */
  signal?: AbortSignal
}

export interface SessionConfig extends SessionConfigBase {
  /** Default: a random UUID. One whose session has a history already is refused with SESSION_EXISTS. */
  sessionId?: string
  cloud?: CloudSessionOptions
  /** Read the instruction files again before each turn; runtimes since 1.0.89. */
  refreshCustomInstructions?: boolean
}

export interface ResumeSessionConfig extends SessionConfigBase {
  suppressResumeEvent?: boolean
  continuePendingWork?: boolean
  openCanvases?: OpenCanvasInstance[]
  /** As `takeOver` of `ResumeOptions`. */
  takeOver?: 'stale'
}

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
    throw new SheepdogError(
      'INVALID_OPTION',
      "CopilotClient is in mode: 'empty' but the session config did not specify 'availableTools'. Empty mode requires " +
        'every session to explicitly opt into the tools it wants \u2014 e.g. `new ToolSet().addBuiltIn(BuiltInTools.Isolated)`.',
    )
  }
  return merged
}

/** Parameters of `session.create` and `session.resume`; what both take means the same. */
export function toWireConfig(config: AnyConfig): Record<string, unknown> {
  for (const field of ['tools', 'canvases', 'commands', 'customAgents', 'providers'] as const)
    checkList(field, config[field])
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
    mcpServers: toWireServers(config.mcpServers),
    envValueMode: 'direct',
    customAgents: config.customAgents?.map((agent) =>
      agent.mcpServers ? { ...agent, mcpServers: toWireServers(agent.mcpServers) } : agent,
    ),
    configDir: config.configDirectory,
  }
}

/** What only `session.create` takes. */
export function toWireCreate(config: SessionConfig): Record<string, unknown> {
  const { onPermissionRequest, cloud, refreshCustomInstructions } = config
  return { requestPermission: !!onPermissionRequest, cloud, refreshCustomInstructions }
}

/** What only `session.resume` takes. */
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

function checkList(field: string, list: unknown): void {
  if (list === undefined || list === null) return
  if (!Array.isArray(list)) throw invalidOption(field, `expected an array, got ${show(list)}`)
  list.forEach((item: unknown, index) => {
    if (typeof item !== 'object' || item === null)
      throw invalidOption(`${field}[${index}]`, `expected an object, got ${show(item)}`)
  })
}

function renameField(value: object | undefined, from: string, to: string): unknown {
  if (!value || !(from in value)) return value
  const { [from]: moved, ...rest } = value as Record<string, unknown>
  return { ...rest, [to]: moved }
}

function toWireServers(servers: Record<string, MCPServerConfig> | undefined): unknown {
  if (!servers) return undefined
  return Object.fromEntries(
    Object.entries(servers).map(([name, server]) => [name, renameField(server, 'workingDirectory', 'cwd')]),
  )
}
