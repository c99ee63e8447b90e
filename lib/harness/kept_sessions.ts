// The sessions that an agent has kept.
import { abortable, throwIfAborted } from '../abort'
import { callSite } from '../call-site'
import { settle } from '../error'
import { native } from '../native'
import { checkOptions } from '../option'
import { agentSpec, type HarnessOptions } from './request'
import { openChecks, type OpenOptions } from './session/request'
import { mergedOptions } from './session/specification'

/** A session that an agent has kept; `open` with `resume` continues it. */
export interface KeptSession {
  /** Id of the session, for the option `resume`. */
  sessionId: string
  /** Title of the session, where the agent gives one. */
  title?: string
  /** Time of its last change, where the agent tells it. */
  updatedAt?: Date
}

const { cwd, binary, signal } = openChecks

/** @internal */
export async function* keptSessions(
  defaults: HarnessOptions,
  options: Pick<OpenOptions, 'cwd' | 'binary' | 'signal'> | undefined,
): AsyncGenerator<KeptSession, void, undefined> {
  const site = callSite()
  checkOptions(options, { cwd, binary, signal })
  const merged = mergedOptions(defaults, options)
  const message = 'the sessions were not listed: the abort signal was already aborted'
  throwIfAborted(merged.signal, 'AGENT_ABORTED', message)
  const { cwd: folder, env, inheritEnv, binary: program, startTimeoutMs } = merged
  const { provider } = defaults
  const examination = new native.AgentExamination()
  const listed = settle<string>(
    examination.listSessions(
      agentSpec({ provider, cwd: folder, env, inheritEnv, binary: program, startTimeoutMs }),
    ),
    site,
  )
  const text = await abortable(listed, merged.signal, 'AGENT_ABORTED', () => examination.abort())
  type Told = { [Field in keyof KeptSession]?: string | null } & Pick<KeptSession, 'sessionId'>
  for (const { sessionId, title, updatedAt } of JSON.parse(text) as Told[]) {
    const time = updatedAt ? new Date(updatedAt) : undefined
    yield {
      sessionId,
      ...(title && { title }),
      ...(time && !Number.isNaN(time.getTime()) && { updatedAt: time }),
    }
  }
}
