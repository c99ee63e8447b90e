// The runtime capability: agents and commands in a sandbox behind a WebSocket, and the client of it.
export type {
  AgentHandler,
  AgentInvocation,
  AgentResult,
  AgentSender,
  RuntimeLogger,
} from './runtime/handler'
export * from './runtime/server'
export * from './runtime/client'
export type {
  ArtifactUpload,
  ExecuteOptions,
  ExecuteResult,
  QueryOptions,
  QueryResult,
  RuntimeCommand,
  SessionEndResult,
  UploadTarget,
} from './runtime/request'
export type { ReceiveOptions, Receiver } from './runtime/receiver'
