// Sessions with the Copilot CLI. The names are those of the existing SDK, so that a program moves over by its import.
export { CopilotClient, type ConnectionState, type RuntimeProcess } from './copilot/client'
export type { CopilotClientInfo, CopilotClientMode, CopilotClientOptions } from './copilot/client_options'
export { CopilotSession, type ResumeOutcome, type SessionCapabilities } from './copilot/session'
export {
  RuntimeConnection,
  type ChildProcessRuntimeConnection,
  type InProcessRuntimeConnection,
  type StdioRuntimeConnection,
  type TcpRuntimeConnection,
  type TelemetryConfig,
  type UriRuntimeConnection,
} from './copilot/runtime_connection'
export type { RuntimeExit } from './copilot/link'
export {
  classifyResumeError,
  type ResumeEvidence,
  type ResumeFallback,
  type ResumeJudgement,
  type ResumeOptions,
  type SessionInspection,
  type SessionLogState,
  type SessionSalvage,
} from './copilot/resume'
export {
  BuiltInTools,
  ToolSet,
  convertMcpCallToolResult,
  defineTool,
  type Tool,
  type ToolBinaryResult,
  type ToolHandler,
  type ToolInvocation,
  type ToolResult,
  type ToolResultObject,
  type ToolResultType,
  type ToolSearchConfig,
  type ToolTelemetry,
  type ZodSchema,
} from './copilot/tool'
export {
  DisableBypassPermissionsModes,
  approveAll,
  createAttributedPermissionResult,
  type AttributedPermissionResult,
  type PermissionHandler,
  type PermissionRequestResult,
} from './copilot/permission'
export {
  Canvas,
  CanvasError,
  createCanvas,
  type CanvasAction,
  type CanvasDeclaration,
  type CanvasOptions,
} from './copilot/canvas'
export {
  SessionFsSqliteTransactionFailure,
  createSessionFsAdapter,
  type SessionFsHandler,
  type SessionFsConfig,
  type SessionFsFileInfo,
  type SessionFsProvider,
  type SessionFsSqliteProvider,
  type SessionFsSqliteQueryResult,
  type SessionFsSqliteStatement,
} from './copilot/session_fs'
export {
  CopilotRequestHandler,
  CopilotWebSocketCloseStatus,
  CopilotWebSocketForwarder,
  CopilotWebSocketHandler,
  type CopilotRequestContext,
} from './copilot/request_handler'
export {
  FactoryResumeError,
  defineFactory,
  isFactoryRunTerminal,
  type FactoryAgentOptions,
  type FactoryContext,
  type FactoryDefinition,
  type FactoryHandle,
  type FactoryJsonSchema,
  type FactoryLimitOverrides,
  type FactoryLimits,
  type FactoryListRunsOptions,
  type FactoryMeta,
  type FactoryPipelineStage,
  type FactoryResumeErrorCode,
  type FactoryResumeOptions,
  type FactoryRunOptions,
  type FactoryRunsPage,
  type FactoryStepOptions,
  type SessionFactoryApi,
} from './copilot/factory'
export { WorkflowResumeError, defineWorkflow, isWorkflowRunTerminal } from './copilot/workflow'
export type * from './copilot/workflow'
export type {
  ExtensionLaunchProfile,
  ExtensionLaunchProvider,
  ExtensionLaunchProviderResolveRequest,
  ExtensionLaunchProviderResolveResult,
  InstallationCancellation,
  InstallationConfirmationHandler,
  InstallationConfirmationRequest,
  InstallationConfirmationResponse,
  InstallationDecision,
} from './copilot/installation'
export type { ResponseSchema } from './copilot/structured_output'
export { SYSTEM_MESSAGE_SECTIONS } from './copilot/system_message'
export type * from './copilot/system_message'
export type * from './copilot/question'
export type * from './copilot/hook'
export type * from './copilot/model'
export type * from './copilot/message'
export type * from './copilot/session_config'
export type * from './copilot/session_metadata'
export type { JsonValue } from './copilot/json'
export type {
  AssistantMessageEvent,
  SessionBackgroundEvent,
  SessionCreatedEvent,
  SessionDeletedEvent,
  SessionEventHandler,
  SessionEventPayload,
  SessionEventType,
  SessionForegroundEvent,
  SessionLifecycleEvent,
  SessionLifecycleEventMetadata,
  SessionLifecycleEventType,
  SessionLifecycleHandler,
  SessionUpdatedEvent,
  TypedSessionEventHandler,
  TypedSessionLifecycleHandler,
} from './copilot/event'
export type { AutoModeSwitchResponse } from './copilot/question'
export type { ContextTier } from './copilot/model'
export type { GitHubMcpToolConfig } from './copilot/session_config'
// Every event, and of the types of RPC those that programs name.
export type * from './copilot/generated_events'
export type {
  CanvasHostContext,
  CanvasHostContextCapabilities,
  CanvasJsonSchema,
  CurrentModel,
  CurrentToolMetadata,
  FactoryAgentSummary,
  FactoryPhaseObservation,
  FactoryPhaseStatus,
  FactoryProgressLine,
  FactoryProgressPage,
  FactoryRunDetail,
  FactoryRunResult,
  FactoryRunStatus,
  FactoryRunSummary,
  GitHubTelemetryClientInfo,
  GitHubTelemetryEvent,
  GitHubTelemetryNotification,
  GitHubTokenAcquireReason,
  GitHubTokenAcquireResult,
  ModelBillingTokenPrices,
  ModelBillingTokenPricesLongContext,
  ModelSwitchAutoTierResult,
  ModelSwitchAutoTierStatus,
  OpenCanvasInstance,
  PermissionDecisionContext,
  PermissionDecisionOutcome,
  PermissionDecisionSurface,
  PermissionResponseCapability,
  RemoteSessionMode,
  ServerRpc,
  SessionFsSqliteQueryType,
  SessionFsSqliteTransactionErrorClass,
  SessionRpc,
} from './copilot/generated'
