// The entry `sheepdog/model`.
export { SheepdogError, type ErrorCode, type SheepdogErrorOf } from '../error'
export type { ErrorFacts } from '../error-facts'
export * from '../model'
