// Sessions with the Copilot CLI. The names are those of the existing SDK, so that a program moves over by its import.
export { CopilotClient, type ConnectionState, type RuntimeProcess } from './copilot/client'
export type { CopilotClientInfo, CopilotClientMode, CopilotClientOptions } from './copilot/client_options'
export { CopilotSession, type SessionCapabilities } from './copilot/session'
export { RuntimeConnection } from './copilot/runtime_connection'
export type * from './copilot/runtime_connection'
export type { RuntimeExit } from './copilot/link'
export { classifyResumeError } from './copilot/resume'
export type * from './copilot/resume'
export { BuiltInTools, ToolSet, convertMcpCallToolResult } from './copilot/tool'
export type * from './copilot/tool'
export { defineTool } from './tool'
export type { Tool, ToolHandler, ToolInvocation, ZodSchema } from './tool'
export type * from './tool/result'
export * from './copilot/permission'
export * from './copilot/canvas'
export * from './copilot/session_fs'
export {
  CopilotRequestHandler,
  CopilotWebSocketCloseStatus,
  CopilotWebSocketForwarder,
  CopilotWebSocketHandler,
  type CopilotRequestContext,
} from './copilot/request_handler'
export { FactoryResumeError, defineFactory, isFactoryRunTerminal } from './copilot/factory'
export type * from './copilot/factory'
export { WorkflowResumeError, defineWorkflow, isWorkflowRunTerminal } from './copilot/workflow'
export type * from './copilot/workflow'
export type * from './copilot/installation'
export type { ResponseSchema } from './copilot/structured_output'
export { SYSTEM_MESSAGE_SECTIONS } from './copilot/system_message'
export type * from './copilot/system_message'
export type * from './copilot/question'
export type * from './copilot/hook'
export type * from './copilot/model'
export type * from './copilot/message'
export type * from './copilot/agent_config'
export type * from './copilot/managed_config'
export type * from './copilot/token_providers'
export type * from './copilot/session_config'
export type * from './copilot/session_metadata'
export type { JsonValue } from './copilot/json'
export type * from './copilot/event'
// These names are those of other types on the wire.
export type { GitHubMcpToolConfig } from './copilot/agent_config'
export type { AssistantMessageEvent, SessionEvent } from './copilot/event'
export type { PermissionRequestedData, PermissionRequestedEvent } from './copilot/event'
export type { ContextTier } from './copilot/model'
export type { PermissionRequest } from './copilot/permission'
export type { AutoModeSwitchResponse } from './copilot/question'
// Every event, and of the types of RPC those that programs name.
export type * from './copilot/generated_events'
export type {
  ConnectorAccountRequest,
  ConnectorAvailability,
  ConnectorCapabilities,
  ConnectorCatalogEntry,
  ConnectorCatalogResult,
  ConnectorCatalogStatus,
  ConnectorConnectRequest,
  ConnectorConnectResult,
  ConnectorContinueRequest,
  ConnectorDisconnectResult,
  ConnectorMcpStatus,
  ConnectorReconcileRequest,
  ConnectorRuntimeStatus,
  ConnectorStatus,
  CurrentModel,
  CurrentToolMetadata,
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
