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
import { toJsonSchema, type Tool } from '../tool/definition'
import { type ToolSearchConfig, type ToolSet, toFilterList } from './tool'

/** A slash command that was called. */
export interface CommandContext {
  /** Id of the session. */
  sessionId: string
  /** The whole text, for example `"/deploy production"`. */
  command: string
  /** Name of the command without the slash. */
  commandName: string
  /** Text after the name. */
  args: string
}
/** Runs a slash command. */
export type CommandHandler = (context: CommandContext) => Promise<void> | void
/** A slash command of a session. */
export interface CommandDefinition {
  /** Name of the command without the slash. */
  name: string
  /** Description for people. */
  description?: string
  /** Runs the command. */
  handler: CommandHandler
}

interface MCPServerConfigBase {
  /**
   * Tools of the server that may be used. An empty list allows none.
   *
   * @default all tools of the server
   */
  tools?: string[]
  /** Kind of the server. */
  type?: string
  /** Longest time of a tool call, in milliseconds. */
  timeout?: number
}
/** An MCP server that the runtime starts as a program. */
export interface MCPStdioServerConfig extends MCPServerConfigBase {
  /**
   * Kind of the server.
   *
   * @default "stdio"
   */
  type?: 'local' | 'stdio'
  /** Program of the server. */
  command: string
  /**
   * Arguments of the program.
   *
   * @default []
   */
  args?: string[]
  /** Environment variables of the program. */
  env?: Record<string, string>
  /** Working directory of the program. */
  workingDirectory?: string
}
/** An MCP server with an HTTP address. */
export interface MCPHTTPServerConfig extends MCPServerConfigBase {
  /** Kind of the server. */
  type: 'http' | 'sse'
  /** Address of the server. */
  url: string
  /** HTTP headers of each request. */
  headers?: Record<string, string>
}
/** An MCP server. */
export type MCPServerConfig = MCPStdioServerConfig | MCPHTTPServerConfig

/** A custom agent. */
export interface CustomAgentConfig {
  /** Name of the agent, unique in the session. */
  name: string
  /** Name of the agent, for people. */
  displayName?: string
  /** Description of the agent's work. */
  description?: string
  /**
   * Names of the tools that the agent may use; null means all.
   *
   * @default all tools
   */
  tools?: string[] | null
  /** Instructions of the agent. */
  prompt: string
  /** MCP servers of this agent, by name. */
  mcpServers?: Record<string, MCPServerConfig>
  /**
   * Whether the model may choose this agent by itself.
   *
   * @default true
   */
  infer?: boolean
  /**
   * Names of skills whose text is in the agent's context from the start.
   *
   * @default none
   */
  skills?: string[]
  /** Model of the agent. The session's model is used when it is not available. */
  model?: string
  /** Reasoning effort of that model. */
  reasoningEffort?: ReasoningEffort
}
/** Settings of the built-in agent, which works when no custom agent is selected. */
export interface DefaultAgentConfig {
  /**
   * Tools that only custom agents may use.
   *
   * @default []
   */
  excludedTools?: string[]
}
/** Settings for sessions that compact their context and keep their state in a folder. */
export interface InfiniteSessionConfig {
  /**
   * Whether the context is compacted automatically.
   *
   * @default true
   */
  enabled?: boolean
  /**
   * Share of the context, from 0 to 1, at which compaction starts in the background.
   *
   * @default 0.80
   */
  backgroundCompactionThreshold?: number
  /**
   * Share of the context, from 0 to 1, at which the session waits for the compaction.
   *
   * @default 0.95
   */
  bufferExhaustionThreshold?: number
}
/** Settings of the agent's memory. */
export interface MemoryConfiguration {
  /** Whether the agent remembers facts across turns. */
  enabled: boolean
}
/** Settings for large results of tools. */
export interface LargeToolOutputConfig {
  /**
   * Whether a large result is written to a file, and the model gets a reference to it.
   *
   * @default true
   */
  enabled?: boolean
  /**
   * Size above which a result is written to a file, in bytes.
   *
   * @default 51_200
   */
  maxSizeBytes?: number
  /**
   * Folder for these files.
   *
   * @default the system's temporary folder
   */
  outputDirectory?: string
}
/** Identity of a program that provides canvases. */
export interface ExtensionInfo {
  /** Namespace, for example `"github-app"`. */
  source: string
  /** Name within the namespace. */
  name: string
}
/** Identity of a program that provides built-in canvases. */
export interface CanvasProviderIdentity {
  /** Stable id of the program. */
  id: string
  /** Name of the program, for people. */
  name?: string
}
/** Settings of the built-in GitHub MCP server. */
export interface GitHubMcpToolConfig {
  /** Enable all its tools. */
  enableAllTools?: boolean
  /** Further groups of tools to enable. */
  additionalToolsets?: string[]
  /** Further tools to enable. */
  additionalTools?: string[]
  /** Enable tools that are not released yet. */
  enableInsidersMode?: boolean
  /** Do not defer tools with forms. Only with MCP Apps. */
  disableFormDeferral?: boolean
}
/** Permission policy of an organization. A malformed rule is refused by the runtime. */
export interface ManagedSettingsPermissions {
  /** Limits the mode that bypasses permission requests; see `DisableBypassPermissionsModes`. */
  disableBypassPermissionsMode?: string
  /** Operations that are always denied, for example `"Shell(git push *)"`. */
  deny?: string[]
  /** Operations that always need a confirmation. */
  ask?: string[]
  /** Operations that need no confirmation. */
  allow?: string[]
}
/** Settings of an organization. */
export interface ManagedSettings {
  /** Permission policy. */
  permissions?: ManagedSettingsPermissions
}
/** Form of the built-in tool `ask_user`: a question, or a form. */
export type AskUserVariant = 'legacy' | 'elicitation'
/** Value of an experiment's parameter. */
export type ExpFlagValue = string | number | boolean | null
/** Parameters of an experiment. */
export interface ExpConfigEntry {
  /** Id of the entry. */
  Id: string
  /** Values by name. */
  Parameters: Record<string, ExpFlagValue>
}
/** Experiments that a session takes part in, in the format of the Copilot CLI. */
export interface CopilotExpAssignmentResponse {
  /** Names of enabled features. */
  Features: string[]
  /** Experiments by name. */
  Flights: Record<string, string>
  /** Parameters of the experiments. */
  Configs: ExpConfigEntry[]
  /** Groups of parameters, passed on unchanged. */
  ParameterGroups?: unknown
  /** Version of the assignment. */
  FlightingVersion?: number
  /** Id of the assignment. */
  ImpressionId?: string
  /** Text that is sent to the Copilot API and with telemetry. */
  AssignmentContext: string
}
/** GitHub repository of a cloud session. */
export interface CloudSessionRepository {
  /** Owner of the repository. */
  owner: string
  /** Name of the repository. */
  name: string
  /** Branch of the repository. */
  branch?: string
}
/** Options of a session that runs in the cloud. */
export interface CloudSessionOptions {
  /** Repository of the session. */
  repository?: CloudSessionRepository
}
/** The request of a GitHub token. */
export type GitHubTokenProviderArgs = Pick<GitHubTokenAcquireRequest, 'host' | 'sessionId' | 'reason'>
/** A GitHub token, or the refusal to give one. */
export type GitHubTokenProviderResult = GitHubTokenAcquireResult
/** Gives a GitHub token whenever a session needs one. */
export type GitHubTokenProvider = (
  args: GitHubTokenProviderArgs,
) => GitHubTokenProviderResult | Promise<GitHubTokenProviderResult>

/** Options of new and resumed sessions. */
export interface SessionConfigBase {
  /** Name of your program, in the `User-Agent` header of API requests. */
  clientName?: string
  /**
   * Model of the session.
   *
   * @default the runtime's choice
   */
  model?: string
  /** How much the model thinks. Only for models that support it (`listModels()`). */
  reasoningEffort?: ReasoningEffort
  /** Form of the summary of the model's reasoning; `"none"` for no summary. */
  reasoningSummary?: ReasoningSummary
  /**
   * Enable experimental features.
   *
   * @default the runtime's choice; false in mode "empty"
   */
  enableExperimentalMode?: boolean
  /**
   * Size of the model's context.
   *
   * @default "default"
   */
  contextTier?: ContextTier
  /** Changes to the abilities and limits of the model. */
  modelCapabilities?: ModelCapabilitiesOverride
  /** Diagnostics of MCP servers that the session keeps. Needs runtime 1.0.89 or newer. */
  diagnostics?: DiagnosticsConfiguration
  /** Settings for large results of tools. */
  largeOutput?: LargeToolOutputConfig
  /**
   * Folder for the session's settings and state.
   *
   * @default the runtime's home folder
   */
  configDirectory?: string
  /**
   * Let the runtime look for settings, such as MCP servers, by itself.
   *
   * @default false
   */
  enableConfigDiscovery?: boolean
  /**
   * Tools that run in this process.
   *
   * @default []
   */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any
  tools?: Tool<any>[]
  /**
   * Canvases that this program provides.
   *
   * @default []
   */
  canvases?: Canvas[]
  /**
   * Give the model tools to open canvases, because this program can show them.
   *
   * @default false
   */
  requestCanvasRenderer?: boolean
  /**
   * Give the model tools of extensions.
   *
   * @default false
   */
  requestExtensions?: boolean
  /**
   * Folder of the SDK that extensions use.
   *
   * @default the bundled SDK
   */
  extensionSdkPath?: string
  /** Identity of this program as a provider of canvases. */
  extensionInfo?: ExtensionInfo
  /**
   * Identity of this program as a provider of built-in canvases. It stays the same over reconnections.
   */
  canvasProvider?: CanvasProviderIdentity
  /**
   * Slash commands that a user of a terminal interface can call.
   *
   * @default []
   */
  commands?: CommandDefinition[]
  /**
   * How the system message is made.
   *
   * @default the runtime's own system message
   */
  systemMessage?: SystemMessageConfig
  /** Settings of the runtime's tool search. */
  toolSearch?: ToolSearchConfig
  /**
   * The only tools that the session may use, by name or by pattern (`builtin:*`, `mcp:NAME`,
   * `custom:NAME`). Required in mode "empty".
   *
   * @default all tools
   */
  availableTools?: string[] | ToolSet
  /**
   * Tools that the session may not use, also when they are in `availableTools`.
   *
   * @default []
   */
  excludedTools?: string[] | ToolSet
  /**
   * Names of built-in agents that the session may not use.
   *
   * @default []
   */
  excludedBuiltinAgents?: string[]
  /**
   * Names of built-in skills to include.
   *
   * @default all built-in skills; none in mode "empty"
   */
  includedBuiltinSkills?: string[]
  /** A model provider of your own, instead of the Copilot API. */
  provider?: ProviderConfig
  /** Settings of the Copilot API. */
  capi?: CapiSessionOptions
  /**
   * Model providers of your own, beside the Copilot API.
   *
   * @default []
   */
  providers?: NamedProviderConfig[]
  /**
   * Models of these providers.
   *
   * @default []
   */
  models?: ProviderModelConfig[]
  /**
   * Whether the runtime sends telemetry of this session. Always off with a `provider`.
   *
   * @default true
   */
  enableSessionTelemetry?: boolean
  /** Whether models add citations, where the provider supports it. */
  enableCitations?: boolean
  /** Record changes to files, so that a session can be rewound. */
  enableFileChangeTracking?: boolean
  /** Limits on what the session may use. */
  sessionLimits?: SessionLimitsConfig
  /**
   * Do not read the repository's instruction files for agents.
   *
   * @default false; true in mode "empty"
   */
  skipCustomInstructions?: boolean
  /**
   * Run custom agents only on this machine.
   *
   * @default false; true in mode "empty"
   */
  customAgentsLocalOnly?: boolean
  /**
   * Tell the agent to add a `Co-authored-by` line to commit messages.
   *
   * @default true; false in mode "empty"
   */
  coauthorEnabled?: boolean
  /**
   * Give the agent the tool `manage_schedule`.
   *
   * @default the runtime's choice; false in mode "empty"
   */
  manageScheduleEnabled?: boolean
  /**
   * Decides on permission requests.
   *
   * @default requests stay open for another client, or for your program to answer by RPC
   */
  onPermissionRequest?: PermissionHandler
  /** Gives tokens for MCP servers. */
  onMcpAuthRequest?: McpAuthHandler
  /** Answers questions of the agent. */
  onUserInputRequest?: UserInputHandler
  /**
   * Form of the tool `ask_user`. `"elicitation"` needs `onElicitationRequest`.
   *
   * @default "legacy"
   */
  askUserVariant?: AskUserVariant
  /** Fills in forms for the agent and for MCP servers. */
  onElicitationRequest?: ElicitationHandler
  /** Pass the user interfaces of MCP servers (MCP Apps) on to this program. */
  enableMcpApps?: boolean
  /** Settings of the built-in GitHub MCP server. */
  githubMcpToolConfig?: GitHubMcpToolConfig
  /**
   * Decides on plans.
   *
   * @default plans are approved
   */
  onExitPlanModeRequest?: ExitPlanModeHandler
  /**
   * Decides whether to switch to the model "auto" after a rate limit.
   *
   * @default "no"
   */
  onAutoModeSwitchRequest?: AutoModeSwitchHandler
  /** Functions that are called at certain moments of the session. */
  hooks?: SessionHooks
  /** Working directory of the session. */
  workingDirectory?: string
  /**
   * Further folders that the agent may access. Give them again when you resume the session.
   *
   * @default []
   */
  additionalDirectories?: string[]
  /**
   * Send events for each piece of an answer (`assistant.message_delta`, `assistant.reasoning_delta`).
   *
   * @default false
   */
  streaming?: boolean
  /**
   * Send such events of sub-agents too.
   *
   * @default true
   */
  includeSubAgentStreamingEvents?: boolean
  /**
   * Storage for tokens of MCP servers: the system's keychain, or memory until the session ends.
   *
   * @default "in-memory"
   */
  mcpOAuthTokenStorage?: 'persistent' | 'in-memory'
  /** Address of the OAuth client ID metadata document of your program. */
  authClientIdMetadataUrl?: string
  /** MCP servers of the session, by name. */
  mcpServers?: Record<string, MCPServerConfig>
  /**
   * Custom agents of the session.
   *
   * @default []
   */
  customAgents?: CustomAgentConfig[]
  /** Settings of the built-in agent. */
  defaultAgent?: DefaultAgentConfig
  /**
   * Name of the custom agent to start with.
   *
   * @default the built-in agent
   */
  agent?: string
  /** Folders to load skills from. */
  skillDirectories?: string[]
  /** Folders of plugins to load. Invalid ones are skipped. */
  pluginDirectories?: string[]
  /** Further folders with instruction files. */
  instructionDirectories?: string[]
  /**
   * Names of skills that are not used.
   *
   * @default []
   */
  disabledSkills?: string[]
  /**
   * Names of MCP servers that are not started.
   *
   * @default []
   */
  disabledMcpServers?: string[]
  /** Settings of automatic compaction. */
  infiniteSessions?: InfiniteSessionConfig
  /**
   * Settings of the agent's memory.
   *
   * @default the runtime's choice
   */
  memory?: MemoryConfiguration
  /**
   * GitHub token of this session, instead of the client's.
   *
   * @throws INVALID_OPTION together with `gitHubTokenProvider`.
   */
  gitHubToken?: string
  /** Gives a GitHub token whenever the session needs one. */
  gitHubTokenProvider?: GitHubTokenProvider
  /** Let the runtime read the organization's settings. Needs `gitHubToken`. */
  enableManagedSettings?: boolean
  /** Settings of the organization, given by your program. */
  managedSettings?: ManagedSettings
  /** Do not search by embeddings. Use it where sessions of several users share a runtime. */
  skipEmbeddingRetrieval?: boolean
  /** Storage for embeddings: on disk for all sessions, or in memory until the session ends. */
  embeddingCacheStorage?: 'persistent' | 'in-memory'
  /** Instructions of your organization for the system message. */
  organizationCustomInstructions?: string
  /** Look for instruction files when the agent has read a file near them. */
  enableOnDemandInstructionDiscovery?: boolean
  /** Load hooks from `.github/hooks/`. */
  enableFileHooks?: boolean
  /** Run git on the host, so that the system message describes the repository. */
  enableHostGitOperations?: boolean
  /** Store the session for searches over all sessions. */
  enableSessionStore?: boolean
  /** Load skills. */
  enableSkills?: boolean
  /**
   * `"off"`: only on this machine. `"export"`: send events to GitHub. `"on"`: send events and accept
   * control from GitHub.
   */
  remoteSession?: RemoteSessionMode
  /**
   * Receives all events, from the first one on. Same as `session.on(handler)`, but without missing
   * early events.
   */
  onEvent?: SessionEventHandler
  /** Gives the file operations of the session. Required when the client has `sessionFs`. */
  createSessionFsProvider?: (session: CopilotSession) => SessionFsProvider
  /** Feature flags of the session. Give them again when you resume it. */
  featureFlags?: Record<string, boolean>
  /** Experiments that the session takes part in. */
  expAssignments?: CopilotExpAssignmentResponse
  /**
   * Ends the wait for the session when aborted. A session that opens after that is closed again.
   *
   * @throws SESSION_ABORTED
   */
  signal?: AbortSignal
}

/** Options of a new session. */
export interface SessionConfig extends SessionConfigBase {
  /**
   * Id of the session.
   *
   * @default a random UUID
   * @throws SESSION_EXISTS when the session with this id has a history.
   */
  sessionId?: string
  /** Run the session in the cloud. */
  cloud?: CloudSessionOptions
  /** Read the instruction files again before each turn. Needs runtime 1.0.89 or newer. */
  refreshCustomInstructions?: boolean
}

/** Options of a resumed session. */
export interface ResumeSessionConfig extends SessionConfigBase {
  /**
   * Send no `session.resume` event.
   *
   * @default false
   */
  suppressResumeEvent?: boolean
  /**
   * Continue tool calls and permission requests that were open. Otherwise they count as interrupted.
   *
   * @default false
   */
  continuePendingWork?: boolean
  /** Canvases that were open, so that the runtime can open them again. */
  openCanvases?: OpenCanvasInstance[]
  /** Same as `takeOver` of `SessionResumeOptions`. */
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
