// Factories: scripted runs of agents that extensions register. Here is the caller's side (see docs/copilot.md).
import { onAbort } from '../abort'
import { SheepdogError } from '../error'
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
declare const brand: unique symbol
export interface FactoryHandle<
  TArgs extends JsonValue = JsonValue,
  TResult extends JsonValue | void = JsonValue | void,
> {
  readonly meta: Readonly<FactoryMeta>
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
  run<TArgs extends JsonValue>(
    factory: string | FactoryHandle<TArgs, JsonValue | void>,
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

const definitions = new WeakMap<object, FactoryDefinition>()

function freeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    Object.values(value).forEach(freeze)
  }
  return value
}

/** Checks a definition and gives the handle that `session.factory.run` takes. */
export function defineFactory<
  TArgs extends JsonValue = JsonValue,
  TResult extends JsonValue | void = JsonValue | void,
>(definition: FactoryDefinition<TArgs, TResult>): FactoryHandle<TArgs, TResult> {
  const meta = freeze(structuredClone(definition.meta))
  checkLimits(meta.limits ?? {})
  const titles = new Set<string>()
  for (const { title } of meta.phases) {
    if (title.trim() === '')
      throw new SheepdogError('INVALID_OPTION', 'Factory phase titles must not be empty')
    if (titles.has(title))
      throw new SheepdogError('INVALID_OPTION', `Factory phase title "${title}" is declared more than once`)
    titles.add(title)
  }
  const handle = Object.freeze({ meta })
  definitions.set(handle, { meta, run: definition.run } as unknown as FactoryDefinition)
  return handle as unknown as FactoryHandle<TArgs, TResult>
}

/** The longest that a timer can wait. */
const MAX_TIMEOUT_SECONDS = 2147483.647

function checkLimits({
  maxConcurrentSubagents,
  maxTotalSubagents,
  timeoutSeconds,
  maxAiCredits,
}: FactoryLimits): void {
  for (const [field, value] of Object.entries({ maxConcurrentSubagents, maxTotalSubagents })) {
    if (value !== undefined && !(Number.isInteger(value) && value > 0)) {
      throw new SheepdogError('INVALID_OPTION', `Factory limit "${field}" must be a positive integer`)
    }
  }
  if (timeoutSeconds !== undefined) {
    if (!(Number.isFinite(timeoutSeconds) && timeoutSeconds > 0)) {
      throw new SheepdogError(
        'INVALID_OPTION',
        'Factory limit "timeoutSeconds" must be a positive, finite number of seconds',
      )
    }
    if (timeoutSeconds > MAX_TIMEOUT_SECONDS) {
      throw new SheepdogError(
        'INVALID_OPTION',
        `Factory limit "timeoutSeconds" must not exceed ${MAX_TIMEOUT_SECONDS} seconds`,
      )
    }
  }
  if (maxAiCredits !== undefined) {
    const units = Math.round(maxAiCredits * 1e9)
    if (!(Number.isFinite(maxAiCredits) && maxAiCredits > 0 && Number.isSafeInteger(units) && units >= 1)) {
      throw new SheepdogError(
        'INVALID_OPTION',
        'Factory limit "maxAiCredits" must be a positive, finite number that rounds to a safe positive integer nano-AIU ceiling',
      )
    }
  }
}

/** A run's state changes are announced; one that is missed is found by looking. */
const LOOK_EVERY_MS = 5000

export function factoryApi(session: CopilotSession): SessionFactoryApi {
  const rpc = () => session.rpc.factory
  const settled = (run: FactoryRunResult) => (isFactoryRunTerminal(run.status) ? run : waitForRun(run.runId))

  async function resume(runId: string, options: FactoryResumeOptions = {}): Promise<FactoryRunResult> {
    const { limits, notifyOnComplete, logPhaseNames } = options
    try {
      const { run } = await rpc().resume({ runId, limits, notifyOnComplete, logPhaseNames } as never)
      return await settled(run)
    } catch (error) {
      const code =
        error instanceof SheepdogError && error.code === 'RPC_ERROR'
          ? (error.data as { code?: unknown } | undefined)?.code
          : undefined
      if (resumeErrorCodes.includes(code)) {
        throw new FactoryResumeError(code as FactoryResumeErrorCode, (error as Error).message)
      }
      throw error
    }
  }

  async function waitForRun(
    runId: string,
    options: { signal?: AbortSignal } = {},
  ): Promise<FactoryRunResult> {
    const { signal } = options
    const aborted = () =>
      signal?.reason ?? Object.assign(new Error('Factory run wait was aborted'), { name: 'AbortError' })
    if (signal?.aborted) throw aborted()
    let look = () => {}
    const unsubscribe = session.on('factory.run_updated', (event) => {
      if (event.data.runId === runId) look()
    })
    const timer = setInterval(() => look(), LOOK_EVERY_MS)
    timer.unref()
    const letGo = onAbort(signal, () => look())
    try {
      for (;;) {
        // Armed before the look, so that a change in between is not missed.
        const changed = new Promise<void>((resolve) => (look = resolve))
        const run = await rpc().getRun({ runId })
        if (isFactoryRunTerminal(run.status)) return run
        if (signal?.aborted) throw aborted()
        await changed
        if (signal?.aborted) throw aborted()
      }
    } finally {
      unsubscribe()
      clearInterval(timer)
      letGo()
    }
  }

  return {
    async run(factory: string | { meta: { name: string } }, options: FactoryRunOptions = {}) {
      const { resumeFromRunId, args, limits, notifyOnComplete, logPhaseNames } = options
      if (typeof factory !== 'string' && !definitions.has(factory))
        throw new SheepdogError('INVALID_OPTION', 'Invalid factory handle')
      if (resumeFromRunId !== undefined)
        return resume(resumeFromRunId, { limits, notifyOnComplete, logPhaseNames })
      const name = typeof factory === 'string' ? factory : factory.meta.name
      const params = { name, args: args ?? {}, options: { limits, notifyOnComplete, logPhaseNames } }
      return settled(await rpc().run(params as never))
    },
    resume,
    waitForRun,
    getRun: async (runId) => rpc().getRun({ runId }),
    listRuns: (async (options?: FactoryListRunsOptions) => {
      const page = await rpc().listRuns(options ?? ({} as never))
      return options === undefined ? page.runs : page
    }) as SessionFactoryApi['listRuns'],
    getRunDetail: async (runId) => rpc().getRunDetail({ runId }),
    getRunProgress: async (runId, options = {}) => rpc().getRunProgress({ runId, ...options }),
    pause: async (runId) => rpc().pause({ runId }),
    cancel: async (runId) => rpc().cancel({ runId }),
  }
}
