// Canvases: surfaces of the host that the agent opens and acts on.
import { check } from '../option'
import type {
  CanvasJsonSchema,
  CanvasProviderCloseRequest,
  CanvasProviderInvokeActionRequest,
  CanvasProviderOpenRequest,
  CanvasProviderOpenResult,
} from './generated'

export type { CanvasHostContext, CanvasHostContextCapabilities, CanvasJsonSchema } from './generated'

/** A question of the runtime to a session, which names the session. */
type OfSession<T> = T & { sessionId: string }

/** An action of a canvas that the agent can call. */
export interface CanvasAction {
  /** Name of the action, unique within the canvas. */
  name: string
  /** Description for the model. */
  description?: string
  /** JSON Schema of the input. */
  inputSchema?: CanvasJsonSchema
  /** Runs the action. */
  handler: (context: OfSession<CanvasProviderInvokeActionRequest>) => Promise<unknown> | unknown
}

/** Definition of a canvas. */
export interface CanvasOptions {
  /** Id of the canvas. */
  id: string
  /** Name of the canvas, for people. */
  displayName: string
  /** Description for the agent, in one sentence. */
  description: string
  /** JSON Schema of the input. */
  inputSchema?: CanvasJsonSchema
  /**
   * Actions that the agent can call.
   *
   * @default []
   */
  actions?: CanvasAction[]
  /** Opens an instance of the canvas. */
  open: (
    context: OfSession<CanvasProviderOpenRequest>,
  ) => Promise<CanvasProviderOpenResult> | CanvasProviderOpenResult
  /** Called when an instance is closed. Errors are not reported to the runtime. */
  onClose?: (context: OfSession<CanvasProviderCloseRequest>) => Promise<void> | void
}

/** Description of a canvas, as the runtime gets it. */
export interface CanvasDeclaration extends Omit<CanvasOptions, 'actions' | 'open' | 'onClose'> {
  /** Actions that the agent can call. */
  actions?: Omit<CanvasAction, 'handler'>[]
}

/** An error with a code that the agent is told. */
export class CanvasError extends Error {
  /** Code of the error. */
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
    this.name = 'CanvasError'
  }

  /** The error of an action without a handler. */
  static noHandler(): CanvasError {
    return new CanvasError('canvas_action_no_handler', 'No handler implemented for this canvas action')
  }
}

/** A canvas of a session. */
export class Canvas {
  /** Description that the runtime gets. */
  readonly declaration: CanvasDeclaration
  /** Opens an instance of the canvas. */
  readonly open: CanvasOptions['open']
  /** Called when an instance is closed. */
  readonly onClose?: CanvasOptions['onClose']
  readonly #actions: Map<string, CanvasAction['handler']>

  constructor(options: CanvasOptions) {
    check.object('canvas', options)
    if (options.actions !== undefined) check.listOf(check.object)('canvas.actions', options.actions)
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

/** Makes a canvas. */
export function createCanvas(options: CanvasOptions): Canvas {
  return new Canvas(options)
}
