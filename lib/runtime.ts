// The runtime capability: agents and commands in a sandbox behind a WebSocket, and the client of it.
export * from './runtime/handler'
export * from './runtime/server'
export * from './runtime/client'
