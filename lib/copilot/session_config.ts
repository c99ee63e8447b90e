// A session's configuration.
import type { Tool } from '../tool/definition'
import type {
  CustomAgentConfig,
  DefaultAgentConfig,
  GitHubMcpToolConfig,
  MCPServerConfig,
} from './agent_config'
import type { Canvas } from './canvas'
import type { SessionEventHandler } from './event'
import type {
  DiagnosticsConfiguration,
  OpenCanvasInstance,
  ReasoningSummary,
  RemoteSessionMode,
  SessionLimitsConfig,
} from './generated'
import type { SessionHooks } from './hook'
import type { CopilotExpAssignmentResponse, ManagedSettings } from './managed_config'
import type {
  CapiSessionOptions,
  ContextTier,
  ModelCapabilitiesOverride,
  NamedProviderConfig,
  ProviderConfig,
  ProviderModelConfig,
  ReasoningEffort,
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
import type { SystemMessageConfig } from './system_message'
import type { GitHubTokenProvider } from './token_providers'
import type { LargeToolOutputConfig, ToolSearchConfig, ToolSet } from './tool'

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
/** Form of the built-in tool `ask_user`: a question, or a form. */
export type AskUserVariant = 'legacy' | 'elicitation'
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
