// Scripted runs of agents that extensions register: the caller's side, by either of their names (see docs/copilot.md).
import { onAbort } from '../abort'
import { SheepdogError, type SheepdogErrorOf, invalidOptions } from '../error'
import { timers } from '../host'
import {
  type FactoryListRunsOptions,
  type ResumeOptions,
  type RunOptions,
  type SessionFactoryApi,
  isFactoryRunTerminal,
} from './factory'
import type { FactoryRunResult, SessionRpc } from './generated'
import { type RunWord, isDefined } from './run_definition'
import type { CopilotSession } from './session'

/** A run's state changes are announced; one that is missed is found by looking. */
const LOOK_EVERY_MS = 5000

/** Not only by the code: a runtime has it too for what it knows and does not offer to this session. */
function isUnknown(error: unknown): boolean {
  const { code, rpcCode, message } = error as SheepdogErrorOf<'RPC_ERROR'>
  return code === 'RPC_ERROR' && rpcCode === -32601 && message.startsWith('Unhandled method')
}

/**
 * An answer by the word that was asked by: the runtime's other word stands in the name of one field, and in the type of a
 * failure. What a run gave is left as it is.
 */
function inWord<T>(word: string, answer: T): T {
  if (typeof answer !== 'object' || answer === null) return answer
  if (Array.isArray(answer)) return answer.map((one: unknown) => inWord(word, one)) as T
  const translated = Object.entries(answer).map(([field, value]: [string, unknown]) => {
    const text = typeof value === 'string' ? value : undefined
    if (field === 'factoryName' || field === 'workflowName') return [`${word}Name`, value]
    if (field === 'type') return [field, text?.replace(/^(factory|workflow)_/, `${word}_`) ?? value]
    if (['run', 'runs', 'failure', 'terminal'].includes(field)) return [field, inWord(word, value)]
    return [field, value]
  })
  return Object.fromEntries(translated) as T
}

/** Asks by the word that this runtime knows, and answers in the caller's own. */
function byEitherWord(session: CopilotSession, own: string, other: string) {
  const methodsOf = (name: string) => (session.rpc as unknown as Record<string, SessionRpc['factory']>)[name]!
  let name = own
  return async <T>(request: (methods: SessionRpc['factory']) => Promise<T>): Promise<T> => {
    try {
      return inWord(own, await request(methodsOf(name)))
    } catch (error) {
      if (name !== own || !isUnknown(error)) throw error
      try {
        const answer = await request(methodsOf(other))
        name = other
        return inWord(own, answer)
      } catch (second) {
        if (isUnknown(second)) throw error
        name = other
        throw second
      }
    }
  }
}

/** The methods of one word; a runtime that has only the other word is asked by that. */
export function runApi(
  session: CopilotSession,
  word: RunWord,
  toResumeError: (code: unknown, message: string) => Error | undefined,
): SessionFactoryApi {
  const own = word.toLowerCase()
  const ask = byEitherWord(session, own, word === 'Factory' ? 'workflow' : 'factory')
  const settled = (run: FactoryRunResult) => (isFactoryRunTerminal(run.status) ? run : waitForRun(run.runId))

  async function resume(runId: string, options: ResumeOptions = {}): Promise<FactoryRunResult> {
    const { limits, notifyOnComplete, logPhaseNames } = options
    try {
      const { run } = await ask((methods) =>
        methods.resume({ runId, limits, notifyOnComplete, logPhaseNames } as never),
      )
      return await settled(run)
    } catch (error) {
      const code =
        error instanceof SheepdogError && error.code === 'RPC_ERROR'
          ? (error.data as { code?: unknown } | undefined)?.code
          : undefined
      throw toResumeError(code, (error as Error).message) ?? error
    }
  }

  const waitForRun = (runId: string, options: { signal?: AbortSignal } = {}) =>
    watchRun(session, word, runId, options.signal, () => ask((methods) => methods.getRun({ runId })))

  return {
    async run(factory: string | { meta: { name: string } }, options: RunOptions = {}) {
      const { resumeFromRunId, args, limits, notifyOnComplete, logPhaseNames } = options
      if (typeof factory !== 'string' && !isDefined(factory)) throw invalidOptions(`Invalid ${own} handle`)
      if (resumeFromRunId !== undefined)
        return resume(resumeFromRunId, { limits, notifyOnComplete, logPhaseNames })
      const name = typeof factory === 'string' ? factory : factory.meta.name
      const params = { name, args: args ?? {}, options: { limits, notifyOnComplete, logPhaseNames } }
      return settled(await ask((methods) => methods.run(params as never)))
    },
    resume,
    waitForRun,
    getRun: async (runId) => ask((methods) => methods.getRun({ runId })),
    listRuns: (async (options?: FactoryListRunsOptions) => {
      const page = await ask((methods) => methods.listRuns(options ?? ({} as never)))
      return options === undefined ? page.runs : page
    }) as SessionFactoryApi['listRuns'],
    getRunDetail: async (runId) => ask((methods) => methods.getRunDetail({ runId })),
    getRunProgress: async (runId, options = {}) =>
      ask((methods) => methods.getRunProgress({ runId, ...options })),
    pause: async (runId) => ask((methods) => methods.pause({ runId })),
    cancel: async (runId) => ask((methods) => methods.cancel({ runId })),
  }
}

/** Looks at a run, and again at each change of it, until it has ended. */
async function watchRun(
  session: CopilotSession,
  word: RunWord,
  runId: string,
  signal: AbortSignal | undefined,
  look: () => Promise<FactoryRunResult>,
): Promise<FactoryRunResult> {
  const aborted = () =>
    signal?.reason ?? Object.assign(new Error(`${word} run wait was aborted`), { name: 'AbortError' })
  if (signal?.aborted) throw aborted()
  let wake = () => {}
  const subscriptions = ['factory.run_updated', 'workflow.run_updated'].map((type) =>
    session.on(type, (event) => {
      if ((event.data as { runId?: unknown }).runId === runId) wake()
    }),
  )
  const timer = timers.setInterval(() => wake(), LOOK_EVERY_MS)
  timer.unref()
  const letGo = onAbort(signal, () => wake())
  try {
    for (;;) {
      // Armed before the look, so that a change in between is not missed.
      const changed = new Promise<void>((resolve) => (wake = resolve))
      const run = await look()
      if (isFactoryRunTerminal(run.status)) return run
      if (signal?.aborted) throw aborted()
      await changed
      if (signal?.aborted) throw aborted()
    }
  } finally {
    for (const unsubscribe of subscriptions) unsubscribe()
    timers.clearInterval(timer)
    letGo()
  }
}
