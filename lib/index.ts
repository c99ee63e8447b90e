export { SheepdogError } from './error'
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
