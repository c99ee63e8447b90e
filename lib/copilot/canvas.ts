// Canvases: surfaces of the host that the agent opens and acts on.
import type {
  CanvasJsonSchema,
  CanvasProviderCloseRequest,
  CanvasProviderInvokeActionRequest,
  CanvasProviderOpenRequest,
  CanvasProviderOpenResult,
} from './generated'

export type { CanvasHostContext, CanvasHostContextCapabilities, CanvasJsonSchema } from './generated'

/** What the runtime asks a session says which. */
type OfSession<T> = T & { sessionId: string }

export interface CanvasAction {
  name: string
  description?: string
  inputSchema?: CanvasJsonSchema
  handler: (context: OfSession<CanvasProviderInvokeActionRequest>) => Promise<unknown> | unknown
}

export interface CanvasDeclaration {
  id: string
  displayName: string
  description: string
  inputSchema?: CanvasJsonSchema
  actions?: Omit<CanvasAction, 'handler'>[]
}

export interface CanvasOptions {
  id: string
  displayName: string
  description: string
  inputSchema?: CanvasJsonSchema
  actions?: CanvasAction[]
  open: (
    context: OfSession<CanvasProviderOpenRequest>,
  ) => Promise<CanvasProviderOpenResult> | CanvasProviderOpenResult
  onClose?: (context: OfSession<CanvasProviderCloseRequest>) => Promise<void> | void
}

/** A fault with a code that the agent is told. */
export class CanvasError extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
    this.name = 'CanvasError'
  }

  /** The fault of an action that nobody handles. */
  static noHandler(): CanvasError {
    return new CanvasError('canvas_action_no_handler', 'No handler implemented for this canvas action')
  }
}

export class Canvas {
  /** What the runtime is told. */
  readonly declaration: CanvasDeclaration
  readonly open: CanvasOptions['open']
  readonly onClose?: CanvasOptions['onClose']
  readonly #actions: Map<string, CanvasAction['handler']>

  constructor(options: CanvasOptions) {
    const { id, displayName, description, inputSchema, actions, open, onClose } = options
    this.#actions = new Map(actions?.map((action) => [action.name, action.handler]))
    this.declaration = {
      id,
      displayName,
      description,
      inputSchema,
      actions: actions?.map(({ handler: _, ...declared }) => declared),
    }
    this.open = open
    this.onClose = onClose
  }

  /** @internal */
  async act(request: OfSession<CanvasProviderInvokeActionRequest>): Promise<unknown> {
    const handler = this.#actions.get(request.actionName)
    if (!handler) throw CanvasError.noHandler()
    return handler(request)
  }
}

export function createCanvas(options: CanvasOptions): Canvas {
  return new Canvas(options)
}
