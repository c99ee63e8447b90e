// The entry `sheepdog/copilot`.
export { SheepdogError, type ErrorCode, type SheepdogErrorOf } from '../error'
export type { ErrorFacts } from '../error-facts'
export * from '../copilot'
