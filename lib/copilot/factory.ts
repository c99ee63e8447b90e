// Factories: scripted runs of agents that extensions register. Here is the caller's side (see docs/copilot.md).
import type {
  ContextTier as WireContextTier,
  FactoryGetRunProgressRequest,
  FactoryListRunsRequest,
  FactoryListRunsResult,
  FactoryProgressPage,
  FactoryRunDetail,
  FactoryRunResult,
  FactoryRunStatus,
  FactoryRunSummary,
} from './generated'
import type { JsonValue } from './json'
import { define } from './run_definition'
import type { CopilotSession } from './session'

export type {
  FactoryAgentSummary,
  FactoryPhaseObservation,
  FactoryPhaseStatus,
  FactoryProgressLine,
  FactoryProgressPage,
  FactoryRunDetail,
  FactoryRunResult,
  FactoryRunStatus,
  FactoryRunSummary,
} from './generated'
export type FactoryListRunsOptions = FactoryListRunsRequest
export type FactoryRunsPage = FactoryListRunsResult
export type FactoryJsonSchema = { [key: string]: JsonValue }

export interface FactoryLimits {
  maxConcurrentSubagents?: number
  maxTotalSubagents?: number
  maxAiCredits?: number
  timeoutSeconds?: number
}
export type FactoryLimitOverrides = { [K in keyof FactoryLimits]?: number | null }
export interface FactoryMeta {
  name: string
  description: string
  phases: { title: string; detail?: string }[]
  argsSchema?: FactoryJsonSchema
  limits?: FactoryLimits
}
export interface FactoryAgentOptions {
  label?: string
  schema?: FactoryJsonSchema
  model?: string
  reasoningEffort?: string
  contextTier?: WireContextTier
  agent?: string
}
export interface FactoryStepOptions {
  volatile?: boolean
}
export type FactoryPipelineStage<TInput = unknown, TResult = unknown> = (
  previous: TInput,
  item: unknown,
  index: number,
) => Promise<TResult> | TResult
export interface FactoryContext<TArgs extends JsonValue = JsonValue> {
  readonly runId: string
  agent(prompt: string, options?: FactoryAgentOptions): Promise<unknown>
  step(
    key: string,
    producer: () => Promise<JsonValue> | JsonValue,
    options?: FactoryStepOptions,
  ): Promise<JsonValue>
  pause(key: string): Promise<void>
  parallel<TResult>(thunks: (() => Promise<TResult> | TResult)[]): Promise<(TResult | null)[]>
  pipeline(items: unknown[], ...stages: FactoryPipelineStage[]): Promise<unknown[]>
  phase(title: string): void
  log(message: string): void
  factory(name: string, args?: JsonValue): Promise<JsonValue | void>
  args: TArgs
  session: CopilotSession
  signal: AbortSignal
}
export interface FactoryDefinition<
  TArgs extends JsonValue = JsonValue,
  TResult extends JsonValue | void = JsonValue | void,
> {
  meta: FactoryMeta
  run(context: FactoryContext<TArgs>): Promise<TResult>
}
export type DeepReadonly<T> = T extends (infer U)[]
  ? readonly DeepReadonly<U>[]
  : T extends object
    ? { readonly [K in keyof T]: DeepReadonly<T[K]> }
    : T
declare const brand: unique symbol
export interface FactoryHandle<
  TArgs extends JsonValue = JsonValue,
  TResult extends JsonValue | void = JsonValue | void,
> {
  readonly meta: DeepReadonly<FactoryMeta>
  readonly [brand]: { readonly args: TArgs; readonly result: TResult }
}
/** Options of `session.factory.run`; the SDK calls them RunOptions, a name that `run` has here. */
export interface FactoryRunOptions<TArgs extends JsonValue = JsonValue> {
  args?: TArgs
  limits?: FactoryLimitOverrides
  notifyOnComplete?: boolean
  logPhaseNames?: boolean
  resumeFromRunId?: string
}
export interface FactoryResumeOptions {
  limits?: FactoryLimitOverrides
  notifyOnComplete?: boolean
  logPhaseNames?: boolean
}
export type FactoryResumeErrorCode =
  | 'not_found'
  | 'non_resumable'
  | 'already_active'
  | 'factory_already_running'
  | 'factory_limits_invalid'
  | 'factory_session_disposed'
  | 'factory_storage_unavailable'
  | 'factory_storage_corrupt'

const resumeErrorCodes: unknown[] = [
  'not_found',
  'non_resumable',
  'already_active',
  'factory_already_running',
  'factory_limits_invalid',
  'factory_session_disposed',
  'factory_storage_unavailable',
  'factory_storage_corrupt',
] satisfies FactoryResumeErrorCode[]

export class FactoryResumeError extends Error {
  readonly code: FactoryResumeErrorCode

  constructor(code: FactoryResumeErrorCode, message: string) {
    super(message)
    this.code = code
    this.name = 'FactoryResumeError'
  }
}

export interface SessionFactoryApi {
  run(name: string, options?: FactoryRunOptions): Promise<FactoryRunResult>
  run<TArgs extends JsonValue>(
    factory: FactoryHandle<TArgs, JsonValue | void>,
    options?: FactoryRunOptions<TArgs>,
  ): Promise<FactoryRunResult>
  resume(runId: string, options?: FactoryResumeOptions): Promise<FactoryRunResult>
  getRun(runId: string): Promise<FactoryRunResult>
  waitForRun(runId: string, options?: { signal?: AbortSignal }): Promise<FactoryRunResult>
  listRuns(): Promise<FactoryRunSummary[]>
  listRuns(options: FactoryListRunsOptions): Promise<FactoryRunsPage>
  getRunDetail(runId: string): Promise<FactoryRunDetail>
  getRunProgress(
    runId: string,
    options?: Omit<FactoryGetRunProgressRequest, 'runId'>,
  ): Promise<FactoryProgressPage>
  pause(runId: string): Promise<FactoryRunResult>
  cancel(runId: string): Promise<FactoryRunResult>
}

export function isFactoryRunTerminal(status: FactoryRunStatus): boolean {
  return ['completed', 'halted', 'paused', 'cancelled', 'error'].includes(status)
}

/** Checks a definition and gives the handle that `session.factory.run` takes. */
export function defineFactory<
  TArgs extends JsonValue = JsonValue,
  TResult extends JsonValue | void = JsonValue | void,
>(definition: FactoryDefinition<TArgs, TResult>): FactoryHandle<TArgs, TResult> {
  return define('Factory', definition) as unknown as FactoryHandle<TArgs, TResult>
}

export const factoryResumeError = (code: unknown, message: string): Error | undefined =>
  resumeErrorCodes.includes(code)
    ? new FactoryResumeError(code as FactoryResumeErrorCode, message)
    : undefined
