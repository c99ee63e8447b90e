export { SheepdogError, type ErrorCode, type SheepdogErrorOf } from './error'
export type { ErrorFacts } from './error-facts'
export type { StandardSchema, StructuredOf } from './schema'
export * from './harness'
export * from './model'
export {
  run,
  spawn,
  RunningProcess,
  type LineBatch,
  type OutputLine,
  type RunOptions,
  type RunResult,
} from './process'
export * from './copilot'
export * from './runtime'
export * from './fleet'
