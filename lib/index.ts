export * from './error'
export * from './process'
