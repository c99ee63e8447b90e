// Events: those of sessions (types from the runtime's schemas), and those of the sessions' lives.
import type {
  PermissionRequestedData as GeneratedRequestedData,
  PermissionRequestedEvent as GeneratedRequestedEvent,
  SessionEvent as GeneratedSessionEvent,
} from './generated'
import type { PermissionRequest } from './permission'

/** Data of the event `permission.requested`. */
export type PermissionRequestedData = Omit<GeneratedRequestedData, 'permissionRequest'> & {
  permissionRequest: PermissionRequest
}
/** The event `permission.requested`. */
export type PermissionRequestedEvent = Omit<GeneratedRequestedEvent, 'data'> & {
  data: PermissionRequestedData
}

/**
 * An event of a session. Events of types that are unknown to this version arrive too: see
 * `CopilotSession.on`.
 */
export type SessionEvent =
  Exclude<GeneratedSessionEvent, { type: 'permission.requested' }> | PermissionRequestedEvent
/** Type of an event. */
export type SessionEventType = SessionEvent['type']
/** The event of a type. */
export type SessionEventPayload<T extends SessionEventType> = Extract<SessionEvent, { type: T }>
/** Receives the events of one type. */
export type TypedSessionEventHandler<T extends SessionEventType> = (event: SessionEventPayload<T>) => void
/** Receives all events of a session. */
export type SessionEventHandler = (event: SessionEvent) => void
/** The event `assistant.message`: an answer of the agent. */
export type AssistantMessageEvent = SessionEventPayload<'assistant.message'>

/** Type of a lifecycle event. */
export type SessionLifecycleEventType =
  'session.created' | 'session.deleted' | 'session.updated' | 'session.foreground' | 'session.background'

/** Facts about the session of a lifecycle event. */
export interface SessionLifecycleEventMetadata {
  /** Time at which the session was created. */
  startTime: Date
  /** Time of its last change. */
  modifiedTime: Date
  /** Summary of the session. */
  summary?: string
}

interface LifecycleEvent<T extends SessionLifecycleEventType, M = SessionLifecycleEventMetadata> {
  type: T
  sessionId: string
  metadata: M
}
/** A session was created. */
export type SessionCreatedEvent = LifecycleEvent<'session.created'>
/** A session was deleted. */
export interface SessionDeletedEvent {
  /** Type of the event. */
  type: 'session.deleted'
  /** Id of the session. */
  sessionId: string
  /** Always absent. */
  metadata?: undefined
}
/** The facts about a session have changed. */
export type SessionUpdatedEvent = LifecycleEvent<'session.updated'>
/** A session was moved to the foreground of a terminal interface. */
export type SessionForegroundEvent = LifecycleEvent<'session.foreground'>
/** A session was moved to the background of a terminal interface. */
export type SessionBackgroundEvent = LifecycleEvent<'session.background'>
/** An event in the life of a session. */
export type SessionLifecycleEvent =
  | SessionCreatedEvent
  | SessionDeletedEvent
  | SessionUpdatedEvent
  | SessionForegroundEvent
  | SessionBackgroundEvent
/** Receives all lifecycle events. */
export type SessionLifecycleHandler = (event: SessionLifecycleEvent) => void
/** Receives the lifecycle events of one type. */
export type TypedSessionLifecycleHandler<K extends SessionLifecycleEventType> = (
  event: Extract<SessionLifecycleEvent, { type: K }>,
) => void

type AnyHandler = (event: never) => void

/** @internal Handlers by type, and for all types; each is called whatever another throws. */
export class HandlerTable {
  readonly #byType = new Map<string, Set<AnyHandler>>()
  readonly #all = new Set<AnyHandler>()

  constructor(private readonly onChange: () => void = () => {}) {}

  add(type: string | undefined, handler: AnyHandler): () => void {
    let handlers = this.#all
    if (type !== undefined) {
      handlers = this.#byType.get(type) ?? new Set()
      this.#byType.set(type, handlers)
    }
    handlers.add(handler)
    this.onChange()
    return () => {
      if (handlers.delete(handler)) this.onChange()
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
    this.onChange()
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
