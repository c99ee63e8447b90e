// Workflows: what runtimes since 1.0.89 call factories. On an older one they are its factories.
import {
  type FactoryAgentOptions,
  type FactoryContext,
  type FactoryJsonSchema,
  type FactoryLimitOverrides,
  type FactoryLimits,
  type FactoryMeta,
  type FactoryPipelineStage,
  type ResumeOptions,
  type RunOptions,
  type FactoryStepOptions,
  isFactoryRunTerminal,
} from './factory'
import type {
  WorkflowGetRunProgressRequest,
  WorkflowListRunsRequest,
  WorkflowListRunsResult,
  WorkflowProgressPage,
  WorkflowRunDetail,
  WorkflowRunResult,
  WorkflowRunStatus,
  WorkflowRunSummary,
} from './generated'
import type { JsonValue } from './json'
import { type DeepReadonly, define } from './run_definition'

export type {
  WorkflowAgentSummary,
  WorkflowPhaseObservation,
  WorkflowPhaseStatus,
  WorkflowProgressLine,
  WorkflowProgressPage,
  WorkflowRunDetail,
  WorkflowRunResult,
  WorkflowRunStatus,
  WorkflowRunSummary,
} from './generated'
/** Options of `listRuns`. */
export type WorkflowListRunsOptions = WorkflowListRunsRequest
/** A page of runs. */
export type WorkflowRunsPage = WorkflowListRunsResult
/** A JSON Schema. */
export type WorkflowJsonSchema = FactoryJsonSchema
/** Limits of a run. */
export type WorkflowLimits = FactoryLimits
/** Limits of one run instead of those of its workflow. `null` means no limit. */
export type WorkflowLimitOverrides = FactoryLimitOverrides
/** Description of a workflow. */
export type WorkflowMeta = FactoryMeta
/** Options of a sub-agent. */
export type WorkflowAgentOptions = FactoryAgentOptions
/** Options of a step. */
export type WorkflowStepOptions = FactoryStepOptions
/** A stage of a pipeline. */
export type WorkflowPipelineStage<TInput = unknown, TResult = unknown> = FactoryPipelineStage<TInput, TResult>
/** Functions and facts for the body of a workflow. */
export interface WorkflowContext<TArgs extends JsonValue = JsonValue> extends Omit<
  FactoryContext<TArgs>,
  'factory'
> {
  /** Always rejects: nested workflows are not supported. */
  workflow(name: string, args?: JsonValue): Promise<JsonValue | void>
}
/** Definition of a workflow. */
export interface WorkflowDefinition<
  TArgs extends JsonValue = JsonValue,
  TResult extends JsonValue | void = JsonValue | void,
> {
  /** Description of the workflow. */
  meta: WorkflowMeta
  /** Body of the workflow. It runs in extensions only. */
  run(context: WorkflowContext<TArgs>): Promise<TResult>
}
declare const brand: unique symbol
/** A reference to a workflow. */
export interface WorkflowHandle<
  TArgs extends JsonValue = JsonValue,
  TResult extends JsonValue | void = JsonValue | void,
> {
  /** Description of the workflow. */
  readonly meta: DeepReadonly<WorkflowMeta>
  /** Marker for the types of arguments and result; there is no value at run time. */
  readonly [brand]: { readonly args: TArgs; readonly result: TResult }
}
/** Options of `session.workflow.run`. */
export type WorkflowRunOptions<TArgs extends JsonValue = JsonValue> = Omit<
  RunOptions<TArgs>,
  'resumeFromRunId'
>
/** Options of `session.workflow.resume`. */
export type WorkflowResumeOptions = ResumeOptions
const resumeErrorCodes = [
  'not_found',
  'non_resumable',
  'already_active',
  'workflow_run_not_resumable',
  'workflow_already_running',
  'workflow_limits_invalid',
  'workflow_session_disposed',
  'workflow_storage_unavailable',
  'workflow_storage_corrupt',
] as const
/** Reason why a run cannot be resumed. */
export type WorkflowResumeErrorCode = (typeof resumeErrorCodes)[number]

/** A run cannot be resumed. */
export class WorkflowResumeError extends Error {
  /** Reason. */
  readonly code: WorkflowResumeErrorCode

  constructor(code: WorkflowResumeErrorCode, message: string) {
    super(message)
    this.code = code
    this.name = 'WorkflowResumeError'
  }
}

/** Runs of registered workflows. */
export interface SessionWorkflowApi {
  /** Runs a workflow by its name. */
  run(name: string, options?: WorkflowRunOptions): Promise<WorkflowRunResult>
  /** Runs a workflow. */
  run<TArgs extends JsonValue>(
    workflow: WorkflowHandle<TArgs, JsonValue | void>,
    options?: WorkflowRunOptions<TArgs>,
  ): Promise<WorkflowRunResult>
  /** Resumes a run. */
  resume(runId: string, options?: WorkflowResumeOptions): Promise<WorkflowRunResult>
  /** Reads the state of a run. */
  getRun(runId: string): Promise<WorkflowRunResult>
  /** Waits until the present attempt of a run has ended. */
  waitForRun(runId: string, options?: { signal?: AbortSignal }): Promise<WorkflowRunResult>
  /** Lists the newest runs. */
  listRuns(): Promise<WorkflowRunSummary[]>
  /** Reads a page of runs. */
  listRuns(options: WorkflowListRunsOptions): Promise<WorkflowRunsPage>
  /** Reads the phases, the agents and the latest progress of a run. */
  getRunDetail(runId: string): Promise<WorkflowRunDetail>
  /** Reads a page of a run's progress. */
  getRunProgress(
    runId: string,
    options?: Omit<WorkflowGetRunProgressRequest, 'runId'>,
  ): Promise<WorkflowProgressPage>
  /** Pauses a run. */
  pause(runId: string): Promise<WorkflowRunResult>
  /** Cancels a run. */
  cancel(runId: string): Promise<WorkflowRunResult>
}

/** Tells whether a run with this status is over. */
export function isWorkflowRunTerminal(status: WorkflowRunStatus): boolean {
  return isFactoryRunTerminal(status)
}

/** Checks a definition and gives the handle for `session.workflow.run`. */
export function defineWorkflow<
  TArgs extends JsonValue = JsonValue,
  TResult extends JsonValue | void = JsonValue | void,
>(definition: WorkflowDefinition<TArgs, TResult>): WorkflowHandle<TArgs, TResult> {
  return define('Workflow', definition) as unknown as WorkflowHandle<TArgs, TResult>
}

/** @internal An older runtime has its own words for the same faults. */
export function workflowResumeError(code: unknown, message: string): Error | undefined {
  const word = typeof code === 'string' ? code.replace(/^factory_/, 'workflow_') : code
  return resumeErrorCodes.includes(word as WorkflowResumeErrorCode)
    ? new WorkflowResumeError(word as WorkflowResumeErrorCode, message)
    : undefined
}
