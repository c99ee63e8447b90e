export * from './error'
export * from './harness'
export * from './model'
export * from './process'
