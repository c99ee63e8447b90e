// The sessions that an agent has kept.
import { abortable, throwIfAborted } from '../abort'
import { callSite } from '../call-site'
import { settle } from '../error'
import { native } from '../native'
import { checkOptions, type Checks } from '../option'
import { agentName } from './agent_program'
import { agentSpec, harnessChecks, type HarnessOptions } from './request'
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

type ListOptions = Pick<OpenOptions, 'cwd' | 'binary' | 'signal'> & Partial<Pick<HarnessOptions, 'provider'>>

const { cwd, binary, signal } = openChecks
const checks = { provider: harnessChecks.provider, cwd, binary, signal } satisfies Checks<ListOptions>

export async function* keptSessions(
  defaults: HarnessOptions,
  options: ListOptions = {},
): AsyncGenerator<KeptSession, void, undefined> {
  const site = callSite()
  checkOptions(options, checks)
  const { provider = defaults.provider, ...own } = options
  // The harness's program is that of its own agent.
  const isOther = agentName(provider) !== agentName(defaults.provider)
  const merged = mergedOptions(isOther ? { ...defaults, binary: undefined } : defaults, own)
  const message = 'the sessions were not listed: the abort signal was already aborted'
  throwIfAborted(merged.signal, 'AGENT_ABORTED', message)
  const { cwd: folder, env, inheritEnv, binary: program, startTimeoutMs } = merged
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
