export * from './error'
export * from './process'
export * from './copilot'
