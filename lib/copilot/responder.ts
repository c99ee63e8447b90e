// Answers what the runtime asks a session: tools, permissions, questions, commands, hooks. One a session.
import type { Link } from './link'
import type { CurrentToolMetadata, OpenCanvasInstance } from './generated'
import { type Canvas, CanvasError } from './canvas'
import { invokeHook } from './hook'
import { type BearerTokenProvider, splitProviders } from './model'
import { Refusal, textOf } from './refusal'
import type { CommandHandler, ResumeSessionConfig, SessionConfig } from './session_config'
import type {
  AutoModeSwitchRequest,
  ElicitationContext,
  ExitPlanModeRequest,
  McpAuthRequest,
  UserInputRequest,
} from './question'
import type { SessionFsHandler } from './session_fs'
import { type SectionTransforms, splitSystemMessage, transformSections } from './system_message'
import type { ToolHandler } from '../tool/definition'
import { toToolResult } from '../tool/result'
import { orAborted } from '../abort'
import { SheepdogError } from '../error'

/** Events that a session must see for itself, whoever else subscribes. */
export const ownEvents = [
  'external_tool.requested',
  'external_tool.completed',
  'permission.requested',
  'mcp.oauth_required',
  'command.execute',
  'elicitation.requested',
  'capabilities.changed',
  'session.resume',
  'subagent.selected',
  'session.canvas.opened',
  'session.canvas.closed',
]

const TOOL_SEARCH = 'tool_search_tool'

interface Data {
  requestId: string
  [field: string]: unknown
}

export class Responder {
  readonly #tools: Map<string, ToolHandler>
  readonly #commands: Map<string, CommandHandler>
  readonly #transforms: SectionTransforms
  readonly #tokens: Map<string, BearerTokenProvider>
  readonly #calls = new Map<string, AbortController>()
  sessionFs: SessionFsHandler | undefined
  openCanvases: OpenCanvasInstance[] = []
  #isClosed = false

  constructor(
    private readonly link: Link,
    private readonly sessionId: string,
    readonly config: SessionConfig & ResumeSessionConfig,
  ) {
    this.#tools = new Map()
    for (const tool of config.tools ?? []) if (tool.handler) this.#tools.set(tool.name, tool.handler)
    this.#commands = new Map(config.commands?.map(({ name, handler }) => [name, handler]))
    this.#transforms = splitSystemMessage(config.systemMessage).transforms
    this.#tokens = splitProviders(config.provider, config.providers).tokens
  }

  close(): void {
    this.#isClosed = true
    for (const call of this.#calls.values()) call.abort()
    this.#calls.clear()
  }

  /** An event of the session; what it asks is answered without making the events after it wait. */
  onEvent(type: string, data: Data): void {
    if (this.#isClosed || !data) return
    switch (type) {
      case 'external_tool.requested':
        return void this.#runTool(data)
      case 'external_tool.completed':
        this.#calls.get(data.requestId)?.abort()
        return void this.#calls.delete(data.requestId)
      case 'permission.requested':
        return void this.#decide(data)
      case 'mcp.oauth_required':
        return void this.#authorize(data)
      case 'command.execute':
        return void this.#runCommand(data)
      case 'elicitation.requested':
        return void this.#elicit(data)
      case 'session.canvas.opened':
        return this.#canvasOpened(data as unknown as OpenCanvasInstance)
      case 'session.canvas.closed':
        this.openCanvases = this.openCanvases.filter((open) => open.instanceId !== data.instanceId)
    }
  }

  /** A request of the runtime to this session; undefined when there is no such method. */
  answer(method: string): ((params: never) => Promise<unknown>) | undefined {
    const answers: Record<string, (params: never) => Promise<unknown>> = {
      'userInput.request': (params) => this.#askUser(params),
      'exitPlanMode.request': (params) => this.#exitPlanMode(params),
      'autoModeSwitch.request': (params) => this.#switchMode(params),
      'systemMessage.transform': async ({ sections }: { sections: Record<string, { content: string }> }) => {
        if (!sections || typeof sections !== 'object')
          throw new Error('Invalid systemMessage.transform payload')
        return transformSections(this.#transforms, sections)
      },
      'hooks.invoke': async ({ hookType, input }: { hookType: string; input: unknown }) => {
        if (typeof hookType !== 'string') throw new Error('Invalid hooks invoke payload')
        return { output: await invokeHook(this.config.hooks, hookType, input, this.sessionId) }
      },
      'providerToken.getToken': (params) => this.#getToken(params),
      'canvas.open': this.#onCanvas(async (canvas, params) => (await canvas.open(params)) ?? {}),
      'canvas.close': this.#onCanvas(async (canvas, params) => canvas.onClose?.(params)),
      'canvas.action.invoke': this.#onCanvas((canvas, params) => canvas.act(params)),
    }
    if (method.startsWith('sessionFs.')) {
      const name = method.slice('sessionFs.'.length)
      if (!this.sessionFs) {
        return async () => {
          throw new Error(`No sessionFs handler registered for session: ${this.sessionId}`)
        }
      }
      return Object.hasOwn(this.sessionFs, name) ? this.sessionFs[name as keyof SessionFsHandler] : undefined
    }
    return Object.hasOwn(answers, method) ? answers[method] : undefined
  }

  #request(method: string, params: object): Promise<unknown> {
    return this.link.request(`session.${method}`, { sessionId: this.sessionId, ...params })
  }

  /**
   * Sends an answer that the runtime may have no use for any more. One that JSON can't say (a BigInt, a circle) is replaced: the
   * agent must not wait for it.
   */
  async #reply(method: string, answer: object, replacement: (error: unknown) => object): Promise<void> {
    try {
      await this.#request(method, answer).catch((error: unknown) => {
        if ((error as SheepdogError).code !== 'INVALID_OPTION') throw error
        return this.#request(method, replacement(error))
      })
    } catch (error) {
      // The question was answered elsewhere, or the runtime is gone: neither is the handler's business.
      if (!(error instanceof SheepdogError)) throw error
    }
  }

  async #runTool(data: Data): Promise<void> {
    const {
      requestId,
      toolCallId,
      toolName,
      arguments: args,
    } = data as Data & { toolCallId: string; toolName: string }
    const handler = this.#tools.get(toolName)
    // A tool that was only declared is the program's to answer.
    if (!handler || this.#calls.has(requestId)) return
    const call = new AbortController()
    this.#calls.set(requestId, call)
    const { signal } = call
    let answer: object
    try {
      const availableTools = toolName === TOOL_SEARCH ? await this.#listTools(signal) : undefined
      if (signal.aborted) return
      const result = await handler(args, {
        sessionId: this.sessionId,
        toolCallId,
        toolName,
        arguments: args,
        availableTools,
        traceparent: data.traceparent as string | undefined,
        tracestate: data.tracestate as string | undefined,
        signal,
      })
      answer = { requestId, result: toToolResult(result) }
    } catch (error) {
      answer = { requestId, error: textOf(error) }
    }
    // Whoever takes the call out of the map ends it: a call that was completed elsewhere is not answered.
    if (this.#calls.get(requestId) !== call) return
    this.#calls.delete(requestId)
    await this.#reply('tools.handlePendingToolCall', answer, (error) => ({
      requestId,
      error: textOf(error),
    }))
    call.abort()
  }

  async #listTools(signal: AbortSignal): Promise<CurrentToolMetadata[] | undefined> {
    const listing = this.#request('tools.getCurrentMetadata', {}) as Promise<{
      tools?: CurrentToolMetadata[]
    }>
    try {
      const { tools } = await orAborted(listing, signal, () => new Error('The call was aborted'))
      return tools ?? undefined
    } catch {
      return undefined
    }
  }

  async #decide({ requestId, permissionRequest, resolvedByHook }: Data): Promise<void> {
    const handler = this.config.onPermissionRequest
    if (!handler || resolvedByHook) return
    let answer: { result: { kind: string }; decisionContext?: unknown }
    try {
      const decision = await handler(permissionRequest as never, {
        sessionId: this.sessionId,
        managedSettingsEnabled:
          this.config.enableManagedSettings === true || this.config.managedSettings !== undefined,
      })
      answer =
        decision.kind === 'attributed'
          ? { result: decision.result, decisionContext: decision.decisionContext }
          : { result: decision }
      if (answer.result.kind === 'no-result') return
    } catch {
      answer = { result: { kind: 'user-not-available' } }
    }
    if (!this.#isClosed) await this.#decided(requestId, answer)
  }

  async #decided(
    requestId: string,
    answer: { result: { kind: string }; decisionContext?: unknown },
  ): Promise<void> {
    const method = 'permissions.handlePendingPermissionRequest'
    try {
      await this.#request(method, { requestId, ...answer })
    } catch {
      // A runtime that does not know the decision must not wait for another.
      const unavailable = { requestId, result: { kind: 'user-not-available' } }
      await this.#reply(method, unavailable, () => unavailable)
    }
  }

  async #authorize(data: Data): Promise<void> {
    const handler = this.config.onMcpAuthRequest
    if (!handler || !data.requestId) return
    let result: object = { kind: 'cancelled' }
    try {
      const token = await handler(data as unknown as McpAuthRequest, { sessionId: this.sessionId })
      if (token && 'accessToken' in token) result = { ...token, kind: 'token' }
    } catch {
      // Cancelled.
    }
    const { requestId } = data
    const cancelled = { requestId, result: { kind: 'cancelled' } }
    await this.#reply('mcp.oauth.handlePendingRequest', { requestId, result }, () => cancelled)
  }

  async #runCommand(data: Data): Promise<void> {
    const { requestId, commandName, command, args } = data as Data & {
      commandName: string
      command: string
      args: string
    }
    const handler = this.#commands.get(commandName)
    let error: string | undefined = handler ? undefined : `Unknown command: ${commandName}`
    try {
      await handler?.({ sessionId: this.sessionId, command, commandName, args })
    } catch (thrown) {
      error = textOf(thrown)
    }
    const answer = { requestId, error }
    if (!this.#isClosed) await this.#reply('commands.handlePendingCommand', answer, () => answer)
  }

  async #elicit(data: Data): Promise<void> {
    const handler = this.config.onElicitationRequest
    if (!handler) return
    const { requestId, message, requestedSchema, mode, elicitationSource, url } = data as Data &
      ElicitationContext
    let result: object = { action: 'cancel' }
    try {
      const context = { sessionId: this.sessionId, message, requestedSchema, mode, elicitationSource, url }
      const { action, content } = await handler(context)
      result = content ? { action, content } : { action }
    } catch {
      // Cancelled.
    }
    const cancelled = { requestId, result: { action: 'cancel' } }
    await this.#reply('ui.handlePendingElicitation', { requestId, result }, () => cancelled)
  }

  async #askUser({ question, choices, allowFreeform }: UserInputRequest): Promise<unknown> {
    if (typeof question !== 'string') throw new Error('Invalid user input request payload')
    if (!this.config.onUserInputRequest) throw new Error('User input requested but no handler registered')
    return this.config.onUserInputRequest({ question, choices, allowFreeform }, { sessionId: this.sessionId })
  }

  async #exitPlanMode(params: ExitPlanModeRequest): Promise<unknown> {
    const { summary, planContent, actions, recommendedAction } = params
    if (typeof summary !== 'string' || !Array.isArray(actions) || typeof recommendedAction !== 'string')
      throw new Error('Invalid exit plan mode request payload')
    const handler = this.config.onExitPlanModeRequest
    if (!handler) return { approved: true }
    return handler({ summary, planContent, actions, recommendedAction }, { sessionId: this.sessionId })
  }

  async #switchMode({ errorCode, retryAfterSeconds }: AutoModeSwitchRequest): Promise<unknown> {
    const handler = this.config.onAutoModeSwitchRequest
    const response = handler
      ? await handler({ errorCode, retryAfterSeconds }, { sessionId: this.sessionId })
      : 'no'
    return { response }
  }

  async #getToken({ providerName }: { providerName: string }): Promise<unknown> {
    const provider = this.#tokens.get(providerName)
    if (!provider) throw new Error(`No bearer-token provider registered for provider "${providerName}"`)
    return { token: await provider({ providerName, sessionId: this.sessionId }) }
  }

  #onCanvas(act: (canvas: Canvas, params: never) => Promise<unknown>) {
    return async (params: { canvasId: string }): Promise<unknown> => {
      const canvas = this.config.canvases?.find((one) => one.declaration.id === params.canvasId)
      if (!canvas) throw new Error(`No canvas registered with id "${params.canvasId}"`)
      try {
        return await act(canvas, params as never)
      } catch (error) {
        const code = error instanceof CanvasError ? error.code : 'canvas_handler_error'
        const message = textOf(error)
        throw new Refusal(-32603, message, { code, message })
      }
    }
  }

  #canvasOpened(instance: OpenCanvasInstance): void {
    if (!instance.instanceId || !instance.extensionId || !instance.canvasId) return
    const others = this.openCanvases.filter((open) => open.instanceId !== instance.instanceId)
    const at = this.openCanvases.findIndex((open) => open.instanceId === instance.instanceId)
    others.splice(at < 0 ? others.length : at, 0, instance)
    this.openCanvases = others
  }
}
