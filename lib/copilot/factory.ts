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
import { type DeepReadonly, define } from './run_definition'
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
/** Options of `listRuns`. */
export type FactoryListRunsOptions = FactoryListRunsRequest
/** A page of runs. */
export type FactoryRunsPage = FactoryListRunsResult
/** A JSON Schema. */
export type FactoryJsonSchema = { [key: string]: JsonValue }

/** Limits of a run. */
export interface FactoryLimits {
  /** Largest number of sub-agents at once. */
  maxConcurrentSubagents?: number
  /** Largest number of sub-agents in all. */
  maxTotalSubagents?: number
  /** Largest number of AI credits. */
  maxAiCredits?: number
  /** Longest time of the run, in seconds. */
  timeoutSeconds?: number
}
/** Limits of one run instead of those of its factory. `null` means no limit. */
export type FactoryLimitOverrides = { [K in keyof FactoryLimits]?: number | null }
/** Description of a factory. */
export interface FactoryMeta {
  /** Name of the factory. */
  name: string
  /** Description for people and models. */
  description: string
  /** Phases of a run. */
  phases: { title: string; detail?: string }[]
  /** JSON Schema of the arguments. */
  argsSchema?: FactoryJsonSchema
  /** Limits of a run. */
  limits?: FactoryLimits
}
/** Options of a sub-agent. */
export interface FactoryAgentOptions {
  /** Name of the sub-agent in reports. */
  label?: string
  /** JSON Schema of its answer. */
  schema?: FactoryJsonSchema
  /** Model of the sub-agent. */
  model?: string
  /** Reasoning effort of the model. */
  reasoningEffort?: string
  /** Size of the context. */
  contextTier?: WireContextTier
  /** Name of a custom agent. */
  agent?: string
}
/** Options of a step. */
export interface FactoryStepOptions {
  /** Run the step again when the run is resumed, instead of using its stored result. */
  volatile?: boolean
}
/** A stage of a pipeline: receives the result of the stage before, the item and its number. */
export type FactoryPipelineStage<TInput = unknown, TResult = unknown> = (
  previous: TInput,
  item: unknown,
  index: number,
) => Promise<TResult> | TResult
/** Functions and facts for the body of a factory. */
export interface FactoryContext<TArgs extends JsonValue = JsonValue> {
  /** Id of the run. */
  readonly runId: string
  /** Runs a sub-agent. */
  agent(prompt: string, options?: FactoryAgentOptions): Promise<unknown>
  /** Runs a step whose result is stored under this key. */
  step(
    key: string,
    producer: () => Promise<JsonValue> | JsonValue,
    options?: FactoryStepOptions,
  ): Promise<JsonValue>
  /** Pauses the run. */
  pause(key: string): Promise<void>
  /** Runs functions in parallel. */
  parallel<TResult>(thunks: (() => Promise<TResult> | TResult)[]): Promise<(TResult | null)[]>
  /** Sends each item through all stages. */
  pipeline(items: unknown[], ...stages: FactoryPipelineStage[]): Promise<unknown[]>
  /** Begins a phase. */
  phase(title: string): void
  /** Writes a line of progress. */
  log(message: string): void
  /** Runs another factory. */
  factory(name: string, args?: JsonValue): Promise<JsonValue | void>
  /** Arguments of the run. */
  args: TArgs
  /** The session of the run. */
  session: CopilotSession
  /** Aborted when the run is cancelled. */
  signal: AbortSignal
}
/** Definition of a factory. */
export interface FactoryDefinition<
  TArgs extends JsonValue = JsonValue,
  TResult extends JsonValue | void = JsonValue | void,
> {
  /** Description of the factory. */
  meta: FactoryMeta
  /** Body of the factory. It runs in extensions only. */
  run(context: FactoryContext<TArgs>): Promise<TResult>
}
declare const brand: unique symbol
/** A reference to a factory. */
export interface FactoryHandle<
  TArgs extends JsonValue = JsonValue,
  TResult extends JsonValue | void = JsonValue | void,
> {
  /** Description of the factory. */
  readonly meta: DeepReadonly<FactoryMeta>
  /** Marker for the types of arguments and result; there is no value at run time. */
  readonly [brand]: { readonly args: TArgs; readonly result: TResult }
}
/** Options of `session.factory.run`. */
export interface RunOptions<TArgs extends JsonValue = JsonValue> {
  /** Arguments of the run. */
  args?: TArgs
  /** Limits of this run. */
  limits?: FactoryLimitOverrides
  /** Whether the agent is told when the run is complete. */
  notifyOnComplete?: boolean
  /** Whether the names of phases are written to the session's log. */
  logPhaseNames?: boolean
  /** Id of an earlier run to continue from. */
  resumeFromRunId?: string
}
/** Options of `session.factory.resume`. */
export type ResumeOptions = Omit<RunOptions, 'args' | 'resumeFromRunId'>

const resumeErrorCodes = [
  'not_found',
  'non_resumable',
  'already_active',
  'factory_already_running',
  'factory_limits_invalid',
  'factory_session_disposed',
  'factory_storage_unavailable',
  'factory_storage_corrupt',
] as const
/** Reason why a run cannot be resumed. */
export type FactoryResumeErrorCode = (typeof resumeErrorCodes)[number]

/** A run cannot be resumed. */
export class FactoryResumeError extends Error {
  /** Reason. */
  readonly code: FactoryResumeErrorCode

  constructor(code: FactoryResumeErrorCode, message: string) {
    super(message)
    this.code = code
    this.name = 'FactoryResumeError'
  }
}

/** Runs of registered factories. */
export interface SessionFactoryApi {
  /** Runs a factory by its name. */
  run(name: string, options?: RunOptions): Promise<FactoryRunResult>
  /** Runs a factory. */
  run<TArgs extends JsonValue>(
    factory: FactoryHandle<TArgs, JsonValue | void>,
    options?: RunOptions<TArgs>,
  ): Promise<FactoryRunResult>
  /** Resumes a run. */
  resume(runId: string, options?: ResumeOptions): Promise<FactoryRunResult>
  /** Reads the state of a run. */
  getRun(runId: string): Promise<FactoryRunResult>
  /** Waits until the present attempt of a run has ended. */
  waitForRun(runId: string, options?: { signal?: AbortSignal }): Promise<FactoryRunResult>
  /** Lists the newest runs. */
  listRuns(): Promise<FactoryRunSummary[]>
  /** Reads a page of runs. */
  listRuns(options: FactoryListRunsOptions): Promise<FactoryRunsPage>
  /** Reads the phases, the agents and the latest progress of a run. */
  getRunDetail(runId: string): Promise<FactoryRunDetail>
  /** Reads a page of a run's progress. */
  getRunProgress(
    runId: string,
    options?: Omit<FactoryGetRunProgressRequest, 'runId'>,
  ): Promise<FactoryProgressPage>
  /** Pauses a run. */
  pause(runId: string): Promise<FactoryRunResult>
  /** Cancels a run. */
  cancel(runId: string): Promise<FactoryRunResult>
}

/** Tells whether a run with this status is over. */
export function isFactoryRunTerminal(status: FactoryRunStatus): boolean {
  return ['completed', 'halted', 'paused', 'cancelled', 'error'].includes(status)
}

/** Checks a definition and gives the handle for `session.factory.run`. */
export function defineFactory<
  TArgs extends JsonValue = JsonValue,
  TResult extends JsonValue | void = JsonValue | void,
>(definition: FactoryDefinition<TArgs, TResult>): FactoryHandle<TArgs, TResult> {
  return define('Factory', definition) as unknown as FactoryHandle<TArgs, TResult>
}

/** @internal */
export const factoryResumeError = (code: unknown, message: string): Error | undefined =>
  resumeErrorCodes.includes(code as FactoryResumeErrorCode)
    ? new FactoryResumeError(code as FactoryResumeErrorCode, message)
    : undefined
