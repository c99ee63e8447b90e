export * from './error'
export * from './harness'
export * from './process'
