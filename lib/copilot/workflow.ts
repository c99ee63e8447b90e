// Workflows: what runtimes since 1.0.89 call factories. On an older one they are its factories.
import {
  type DeepReadonly,
  type FactoryAgentOptions,
  type FactoryContext,
  type FactoryJsonSchema,
  type FactoryLimitOverrides,
  type FactoryLimits,
  type FactoryMeta,
  type FactoryPipelineStage,
  type FactoryResumeErrorCode,
  type FactoryResumeOptions,
  type FactoryRunOptions,
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
import { define } from './run_definition'

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
export type WorkflowListRunsOptions = WorkflowListRunsRequest
export type WorkflowRunsPage = WorkflowListRunsResult
export type WorkflowJsonSchema = FactoryJsonSchema
export type WorkflowLimits = FactoryLimits
export type WorkflowLimitOverrides = FactoryLimitOverrides
export type WorkflowMeta = FactoryMeta
export type WorkflowAgentOptions = FactoryAgentOptions
export type WorkflowStepOptions = FactoryStepOptions
export type WorkflowPipelineStage<TInput = unknown, TResult = unknown> = FactoryPipelineStage<TInput, TResult>
export interface WorkflowContext<TArgs extends JsonValue = JsonValue> extends Omit<
  FactoryContext<TArgs>,
  'factory'
> {
  workflow(name: string, args?: JsonValue): Promise<JsonValue | void>
}
export interface WorkflowDefinition<
  TArgs extends JsonValue = JsonValue,
  TResult extends JsonValue | void = JsonValue | void,
> {
  meta: WorkflowMeta
  run(context: WorkflowContext<TArgs>): Promise<TResult>
}
declare const brand: unique symbol
export interface WorkflowHandle<
  TArgs extends JsonValue = JsonValue,
  TResult extends JsonValue | void = JsonValue | void,
> {
  readonly meta: DeepReadonly<WorkflowMeta>
  readonly [brand]: { readonly args: TArgs; readonly result: TResult }
}
export type WorkflowRunOptions<TArgs extends JsonValue = JsonValue> = Omit<
  FactoryRunOptions<TArgs>,
  'resumeFromRunId'
>
export type WorkflowResumeOptions = FactoryResumeOptions
export type WorkflowResumeErrorCode =
  | Extract<FactoryResumeErrorCode, 'not_found' | 'non_resumable' | 'already_active'>
  | 'workflow_run_not_resumable'
  | 'workflow_already_running'
  | 'workflow_limits_invalid'
  | 'workflow_session_disposed'
  | 'workflow_storage_unavailable'
  | 'workflow_storage_corrupt'

const resumeErrorCodes: unknown[] = [
  'not_found',
  'non_resumable',
  'already_active',
  'workflow_run_not_resumable',
  'workflow_already_running',
  'workflow_limits_invalid',
  'workflow_session_disposed',
  'workflow_storage_unavailable',
  'workflow_storage_corrupt',
] satisfies WorkflowResumeErrorCode[]

export class WorkflowResumeError extends Error {
  readonly code: WorkflowResumeErrorCode

  constructor(code: WorkflowResumeErrorCode, message: string) {
    super(message)
    this.code = code
    this.name = 'WorkflowResumeError'
  }
}

export interface SessionWorkflowApi {
  run(name: string, options?: WorkflowRunOptions): Promise<WorkflowRunResult>
  run<TArgs extends JsonValue>(
    workflow: WorkflowHandle<TArgs, JsonValue | void>,
    options?: WorkflowRunOptions<TArgs>,
  ): Promise<WorkflowRunResult>
  resume(runId: string, options?: WorkflowResumeOptions): Promise<WorkflowRunResult>
  getRun(runId: string): Promise<WorkflowRunResult>
  waitForRun(runId: string, options?: { signal?: AbortSignal }): Promise<WorkflowRunResult>
  listRuns(): Promise<WorkflowRunSummary[]>
  listRuns(options: WorkflowListRunsOptions): Promise<WorkflowRunsPage>
  getRunDetail(runId: string): Promise<WorkflowRunDetail>
  getRunProgress(
    runId: string,
    options?: Omit<WorkflowGetRunProgressRequest, 'runId'>,
  ): Promise<WorkflowProgressPage>
  pause(runId: string): Promise<WorkflowRunResult>
  cancel(runId: string): Promise<WorkflowRunResult>
}

export function isWorkflowRunTerminal(status: WorkflowRunStatus): boolean {
  return isFactoryRunTerminal(status)
}

/** Checks a definition and gives the handle that `session.workflow.run` takes. */
export function defineWorkflow<
  TArgs extends JsonValue = JsonValue,
  TResult extends JsonValue | void = JsonValue | void,
>(definition: WorkflowDefinition<TArgs, TResult>): WorkflowHandle<TArgs, TResult> {
  return define('Workflow', definition) as unknown as WorkflowHandle<TArgs, TResult>
}

/** An older runtime has its own words for the same faults. */
export function workflowResumeError(code: unknown, message: string): Error | undefined {
  const word = typeof code === 'string' ? code.replace(/^factory_/, 'workflow_') : code
  return resumeErrorCodes.includes(word)
    ? new WorkflowResumeError(word as WorkflowResumeErrorCode, message)
    : undefined
}
