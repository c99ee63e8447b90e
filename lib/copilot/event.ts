// Events: those of sessions (types from the runtime's schemas), and those of the sessions' lives.
import type {
  PermissionRequestedData as GeneratedRequestedData,
  PermissionRequestedEvent as GeneratedRequestedEvent,
  SessionEvent as GeneratedSessionEvent,
} from './generated'
import type { PermissionRequest } from './permission'

export type PermissionRequestedData = Omit<GeneratedRequestedData, 'permissionRequest'> & {
  permissionRequest: PermissionRequest
}
export type PermissionRequestedEvent = Omit<GeneratedRequestedEvent, 'data'> & {
  data: PermissionRequestedData
}

/** Any event of a session. Types that the schemas do not know arrive too: see `CopilotSession.on`. */
export type SessionEvent =
  Exclude<GeneratedSessionEvent, { type: 'permission.requested' }> | PermissionRequestedEvent
export type SessionEventType = SessionEvent['type']
export type SessionEventPayload<T extends SessionEventType> = Extract<SessionEvent, { type: T }>
export type TypedSessionEventHandler<T extends SessionEventType> = (event: SessionEventPayload<T>) => void
export type SessionEventHandler = (event: SessionEvent) => void
export type AssistantMessageEvent = SessionEventPayload<'assistant.message'>

export type SessionLifecycleEventType =
  'session.created' | 'session.deleted' | 'session.updated' | 'session.foreground' | 'session.background'

export interface SessionLifecycleEventMetadata {
  startTime: Date
  modifiedTime: Date
  summary?: string
}

interface LifecycleEvent<T extends SessionLifecycleEventType, M = SessionLifecycleEventMetadata> {
  type: T
  sessionId: string
  metadata: M
}
export type SessionCreatedEvent = LifecycleEvent<'session.created'>
export interface SessionDeletedEvent {
  type: 'session.deleted'
  sessionId: string
  metadata?: undefined
}
export type SessionUpdatedEvent = LifecycleEvent<'session.updated'>
export type SessionForegroundEvent = LifecycleEvent<'session.foreground'>
export type SessionBackgroundEvent = LifecycleEvent<'session.background'>
export type SessionLifecycleEvent =
  | SessionCreatedEvent
  | SessionDeletedEvent
  | SessionUpdatedEvent
  | SessionForegroundEvent
  | SessionBackgroundEvent
export type SessionLifecycleHandler = (event: SessionLifecycleEvent) => void
export type TypedSessionLifecycleHandler<K extends SessionLifecycleEventType> = (
  event: Extract<SessionLifecycleEvent, { type: K }>,
) => void

type AnyHandler = (event: never) => void

/** Handlers by type, and for all types; each is called whatever another throws. */
export class HandlerTable {
  readonly #byType = new Map<string, Set<AnyHandler>>()
  readonly #all = new Set<AnyHandler>()
  readonly #onChange: () => void

  constructor(onChange: () => void = () => {}) {
    this.#onChange = onChange
  }

  add(type: string | undefined, handler: AnyHandler): () => void {
    let handlers = this.#all
    if (type !== undefined) {
      handlers = this.#byType.get(type) ?? new Set()
      this.#byType.set(type, handlers)
    }
    handlers.add(handler)
    this.#onChange()
    return () => {
      if (handlers.delete(handler)) this.#onChange()
    }
  }

  dispatch(event: { type: string }): void {
    const typed = this.#byType.get(event.type)
    if (typed) call(typed, event)
    if (this.#all.size > 0) call(this.#all, event)
  }

  clear(): void {
    this.#byType.clear()
    this.#all.clear()
    this.#onChange()
  }

  get wantsAll(): boolean {
    return this.#all.size > 0
  }

  get types(): string[] {
    return [...this.#byType].filter(([, handlers]) => handlers.size > 0).map(([type]) => type)
  }
}

function call(handlers: Set<AnyHandler>, event: unknown): void {
  for (const handler of handlers) {
    try {
      handler(event as never)
    } catch {
      // A handler's fault is not the other handlers'.
    }
  }
}
