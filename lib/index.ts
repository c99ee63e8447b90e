// The root: programs and agents. The Copilot client, the runtime, the fleet, model calls and agents for tests have entries of
// their own (lib/entries).
export { SheepdogError, type ErrorCode, type SheepdogErrorOf } from './error'
export type { ErrorFacts } from './error-facts'
export type { JsonValue } from './json'
export type { StandardSchema, StructuredOf } from './schema'
export type { TokenUsage } from './usage'
export * from './harness'
export { race, type Race, type RaceEntry, type RaceOptions } from './harness/race'
export * from './tool'
export { AgentSession, type SessionEvent, type SessionMode, type SessionOption } from './harness/session'
export type { Answer, PermissionRequest, Policy, Rule, ToolKind } from './harness/session/permission'
export type { ElicitationAnswer, ElicitationRequest } from './harness/session/elicitation'
export type { McpServer } from './harness/mcp_server'
export type { OpenOptions, PromptOptions } from './harness/session/request'
export * from './process'
export * from './process/supervised'
export { listTrees, reapTrees, stopTree, type ReapedTree, type RunTree } from './process/tree'
export {
  sandboxSupport,
  type RefusedTarget,
  type SandboxOptions,
  type SandboxReport,
  type SandboxSupport,
} from './sandbox'
export type { RunMessage, SessionMessage, ToolMessage, TurnMessage } from './observability/channel'
