export { SheepdogError, type ErrorCode, type SheepdogErrorOf } from './error'
export type { ErrorFacts } from './error-facts'
export type { StandardSchema, StructuredOf } from './schema'
export * from './harness'
export * from './model'
// Some of these names are the Copilot SDK's already.
export {
  AgentSession,
  type SessionEvent as AgentSessionEvent,
  type SessionMode as AgentSessionMode,
  type SessionOption as AgentSessionOption,
} from './harness/session'
export type {
  Answer,
  PermissionRequest as AgentPermissionRequest,
  Policy,
  Rule,
  ToolKind,
} from './harness/session/permission'
export type {
  ElicitationAnswer as AgentElicitationAnswer,
  ElicitationRequest as AgentElicitationRequest,
} from './harness/session/elicitation'
export type { McpServer } from './harness/mcp_server'
export type { OpenOptions, PromptOptions } from './harness/session/request'
export {
  run,
  spawn,
  ProcessStdin,
  RunningProcess,
  type LineBatch,
  type OutputLine,
  type RecordFacts,
  type RunInput,
  type Expected,
  type ExpectOptions,
  type RunOptions,
  type RunResult,
  type RunRetry,
} from './process'
export {
  supervise,
  Supervised,
  type RestartOptions,
  type SupervisedEvent,
  type SuperviseOptions,
} from './process/supervised'
export { listTrees, reapTrees, stopTree, type ReapedTree, type RunTree } from './process/tree'
export {
  sandboxSupport,
  type RefusedTarget,
  type SandboxOptions,
  type SandboxReport,
  type SandboxSupport,
} from './sandbox'
export type { RunMessage, SessionMessage, ToolMessage, TurnMessage } from './observability/channel'
export * from './copilot'
export * from './runtime'
export * from './fleet'
export * from './testing'
