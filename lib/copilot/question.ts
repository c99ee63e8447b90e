// Questions of the runtime to people: input, forms, plans, models.
import type { UIElicitationSchemaProperty } from './generated'

/** A question of the agent. */
export interface UserInputRequest {
  /** The question. */
  question: string
  /** Answers to choose from. */
  choices?: string[]
  /**
   * Whether any other answer is allowed.
   *
   * @default true
   */
  allowFreeform?: boolean
}
/** Answer to a question of the agent. */
export interface UserInputResponse {
  /** The answer. */
  answer: string
  /** Whether the answer is not one of the choices. */
  wasFreeform: boolean
}
/** Answers questions of the agent. */
export type UserInputHandler = (
  request: UserInputRequest,
  invocation: { sessionId: string },
) => Promise<UserInputResponse> | UserInputResponse

/** A field of a form. */
export type ElicitationSchemaField = UIElicitationSchemaProperty

/** A form. */
export interface ElicitationSchema {
  /** Always `"object"`. */
  type: 'object'
  /** Fields of the form. */
  properties: Record<string, ElicitationSchemaField>
  /** Names of the fields that must be filled in. */
  required?: string[]
}
/** Value of a field. */
export type ElicitationFieldValue = string | number | boolean | string[]
/** Answer to a form. */
export interface ElicitationResult {
  /** Whether the user accepted, declined or closed the form. */
  action: 'accept' | 'decline' | 'cancel'
  /** Values of the fields. Only with `"accept"`. */
  content?: Record<string, ElicitationFieldValue>
}
/** A form to show. */
export interface ElicitationParams {
  /** Text above the form. */
  message: string
  /** Fields of the form. */
  requestedSchema: ElicitationSchema
}
/** A form that the agent or an MCP server wants to be filled in. */
export interface ElicitationContext {
  /** Id of the session. */
  sessionId: string
  /** Text above the form. */
  message: string
  /** Fields of the form. */
  requestedSchema?: ElicitationSchema
  /** `"form"`: a form. `"url"`: a page to open in a browser. */
  mode?: 'form' | 'url'
  /** Source of the request, for example the name of an MCP server. */
  elicitationSource?: string
  /** Address to open. Only with mode `"url"`. */
  url?: string
}
/** Fills in forms. When it throws, the answer is `"cancel"`. */
export type ElicitationHandler = (
  context: ElicitationContext,
) => Promise<ElicitationResult> | ElicitationResult

/** Options of `ui.input`. */
export interface UiInputOptions {
  /** Label of the field. */
  title?: string
  /** Text below the field. */
  description?: string
  /** Smallest number of characters. */
  minLength?: number
  /** Largest number of characters. */
  maxLength?: number
  /** Format of the input. */
  format?: 'email' | 'uri' | 'date' | 'date-time'
  /** Value that is filled in at first. */
  default?: string
}
/**
 * Dialogs of the program behind the runtime. Every method throws unless
 * `session.capabilities.ui?.elicitation` is true.
 */
export interface SessionUiApi {
  /** Shows a form. */
  elicitation(params: ElicitationParams): Promise<ElicitationResult>
  /** Asks for a confirmation. False when the user declines or closes the dialog. */
  confirm(message: string): Promise<boolean>
  /** Asks for one of several options; null when the user declines or closes the dialog. */
  select(message: string, options: string[]): Promise<string | null>
  /** Asks for a text; null when the user declines or closes the dialog. */
  input(message: string, options?: UiInputOptions): Promise<string | null>
}

/** A plan that the agent wants to carry out. */
export interface ExitPlanModeRequest {
  /** Summary of the plan. */
  summary: string
  /** The whole plan. */
  planContent?: string
  /** Actions to choose from. */
  actions: string[]
  /** Action that the runtime recommends. */
  recommendedAction: string
}
/** Decision on a plan. */
export interface ExitPlanModeResult {
  /** Whether the plan is approved. */
  approved: boolean
  /** The action that was chosen. */
  selectedAction?: string
  /** Feedback for the agent. */
  feedback?: string
}
/** Decides on plans. Without a handler they are approved. */
export type ExitPlanModeHandler = (
  request: ExitPlanModeRequest,
  invocation: { sessionId: string },
) => Promise<ExitPlanModeResult> | ExitPlanModeResult

/** The runtime asks whether to switch to the model "auto" after a rate limit. */
export interface AutoModeSwitchRequest {
  /** Code of the rate limit. */
  errorCode?: string
  /** Seconds until the limit ends. */
  retryAfterSeconds?: number
}
/** Answer to the request to switch the model. */
export type AutoModeSwitchResponse = 'yes' | 'yes_always' | 'no'
/** Decides whether to switch to the model "auto". Without a handler the answer is `"no"`. */
export type AutoModeSwitchHandler = (
  request: AutoModeSwitchRequest,
  invocation: { sessionId: string },
) => Promise<AutoModeSwitchResponse> | AutoModeSwitchResponse

/** An MCP server needs a token. */
export interface McpAuthRequest {
  /** Id of the request. */
  requestId: string
  /** Name of the MCP server. */
  serverName: string
  /** Address of the MCP server. */
  serverUrl: string
  /** Reason of the request. */
  reason: 'initial' | 'refresh' | 'reauth' | 'upscope'
  /** Parameters of the server's `WWW-Authenticate` header. */
  wwwAuthenticateParams?: { resourceMetadataUrl?: string; scope?: string; error?: string }
  /** Protected-resource metadata of the server (RFC 9728), as JSON. */
  resourceMetadata?: string
  /** OAuth client that the server names. */
  staticClientConfig?: {
    clientId: string
    clientSecret?: string
    grantType?: 'client_credentials'
    publicClient?: boolean
    /** Scope to ask for when the server's challenge names none. Needs runtime 1.0.89 or newer. */
    scope?: string
  }
}
/** A token for an MCP server. */
export interface McpAuthToken {
  /** The token. */
  accessToken: string
  /**
   * Type of the token.
   *
   * @default "Bearer"
   */
  tokenType?: string
  /** Seconds until the token expires. */
  expiresIn?: number
}
/** A token, or the refusal to give one. */
export type McpAuthResult = ({ kind: 'token' } & McpAuthToken) | { kind: 'cancelled' }
/** Gives tokens for MCP servers. When it throws or returns nothing, the request is cancelled. */
export type McpAuthHandler = (
  request: McpAuthRequest,
  context: { sessionId: string },
) =>
  McpAuthResult | McpAuthToken | null | undefined | Promise<McpAuthResult | McpAuthToken | null | undefined>

/** @internal The dialogs, each as the form that `elicit` shows. */
export function sessionUi(elicit: SessionUiApi['elicitation']): SessionUiApi {
  /** The value of a form of one field; null when the form is not accepted. */
  const ask = async <T>(message: string, name: string, field: ElicitationSchemaField): Promise<T | null> => {
    const requestedSchema = { type: 'object' as const, properties: { [name]: field }, required: [name] }
    const { action, content } = await elicit({ message, requestedSchema })
    return action === 'accept' ? ((content?.[name] as T | undefined) ?? null) : null
  }
  return {
    elicitation: elicit,
    confirm: async (message) =>
      (await ask(message, 'confirmed', { type: 'boolean', default: true })) === true,
    select: (message, options) => ask(message, 'selection', { type: 'string', enum: options }),
    input: async (message, options) => ask(message, 'value', inputField(options)),
  }
}

function inputField({ title, description, ...rest }: UiInputOptions = {}): ElicitationSchemaField {
  const { minLength, maxLength, format, default: preset } = rest
  const given = { title: title || undefined, description: description || undefined, minLength, maxLength }
  return { type: 'string', ...given, format, default: preset }
}
