// The entry `sheepdog/runtime`.
export { SheepdogError, type ErrorCode, type SheepdogErrorOf } from '../error'
export type { ErrorFacts } from '../error-facts'
export * from '../runtime'
