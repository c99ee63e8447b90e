export * from './error'
export * from './model'
export * from './process'
export * from './runtime'
