// The entry `sheepdog/testing`.
export { SheepdogError, type ErrorCode, type SheepdogErrorOf } from '../error'
export type { ErrorFacts } from '../error-facts'
export * from '../testing'
