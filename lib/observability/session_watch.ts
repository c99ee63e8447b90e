// A session as the channel `sheepdog:session` sees it.
import type { AgentName } from '../harness/agent_program'
import { elapsedMs } from '../host'
import { channels, nextId, publish } from './channel'

export type SessionWatch = NonNullable<ReturnType<typeof watchSession>>

/** There is a watch only where somebody looks when the session begins. */
export function watchSession(provider: AgentName, { cwd, resume }: { cwd?: string | URL; resume?: string }) {
  if (!channels.session.hasSubscribers) return undefined
  const id = nextId()
  const startedMs = elapsedMs()
  const facts = () => ({ id, provider, durationMs: elapsedMs() - startedMs })
  let sessionId: string | undefined
  let isOver = false
  publish('session', { phase: 'start', id, provider, cwd, resume })
  return {
    id,
    onOpen(opened: string): void {
      sessionId = opened
      publish('session', { phase: 'open', ...facts(), sessionId })
    },
    /** Once: a session that is lost is closed as well. */
    end(error?: Error): void {
      if (isOver) return
      isOver = true
      publish('session', { phase: 'end', ...facts(), sessionId, error })
    },
  }
}
