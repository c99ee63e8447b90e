// The runtime capability: agents and commands in a sandbox behind a WebSocket, and the client of it.
export type * from './runtime/handler'
export * from './runtime/server'
export * from './runtime/client'
export type * from './runtime/request'
export type { ReceiveOptions, Receiver } from './runtime/receiver'
