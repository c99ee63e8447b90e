// The entry point `sheepdog/testing`: a part of the root, which exports everything.
export { SheepdogError, type ErrorCode, type SheepdogErrorOf } from '../error'
export type { ErrorFacts } from '../error-facts'
export * from '../testing'
