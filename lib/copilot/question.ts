// What the runtime asks people: input, forms, plans, models.

export interface UserInputRequest {
  question: string
  choices?: string[]
  allowFreeform?: boolean
}
export interface UserInputResponse {
  answer: string
  wasFreeform: boolean
}
export type UserInputHandler = (
  request: UserInputRequest,
  invocation: { sessionId: string },
) => Promise<UserInputResponse> | UserInputResponse

interface Field {
  title?: string
  description?: string
}
interface Several extends Field {
  type: 'array'
  minItems?: number
  maxItems?: number
  default?: string[]
}
export type ElicitationSchemaField =
  | (Field & { type: 'string'; enum: string[]; enumNames?: string[]; default?: string })
  | (Field & { type: 'string'; oneOf: { const: string; title: string }[]; default?: string })
  | (Several & { items: { type: 'string'; enum: string[] } })
  | (Several & { items: { anyOf: { const: string; title: string }[] } })
  | (Field & { type: 'boolean'; default?: boolean })
  | (Field & {
      type: 'string'
      minLength?: number
      maxLength?: number
      format?: 'email' | 'uri' | 'date' | 'date-time'
      default?: string
    })
  | (Field & { type: 'number' | 'integer'; minimum?: number; maximum?: number; default?: number })

export interface ElicitationSchema {
  type: 'object'
  properties: Record<string, ElicitationSchemaField>
  required?: string[]
}
export type ElicitationFieldValue = string | number | boolean | string[]
export interface ElicitationResult {
  action: 'accept' | 'decline' | 'cancel'
  content?: Record<string, ElicitationFieldValue>
}
export interface ElicitationParams {
  message: string
  requestedSchema: ElicitationSchema
}
export interface ElicitationContext {
  sessionId: string
  message: string
  requestedSchema?: ElicitationSchema
  mode?: 'form' | 'url'
  elicitationSource?: string
  url?: string
}
/** A handler that throws counts as "cancel". */
export type ElicitationHandler = (
  context: ElicitationContext,
) => Promise<ElicitationResult> | ElicitationResult

export interface UiInputOptions {
  title?: string
  description?: string
  minLength?: number
  maxLength?: number
  format?: 'email' | 'uri' | 'date' | 'date-time'
  default?: string
}
/** Dialogs of the host; every one throws unless `session.capabilities.ui?.elicitation`. */
export interface SessionUiApi {
  elicitation(params: ElicitationParams): Promise<ElicitationResult>
  confirm(message: string): Promise<boolean>
  select(message: string, options: string[]): Promise<string | null>
  input(message: string, options?: UiInputOptions): Promise<string | null>
}

export interface ExitPlanModeRequest {
  summary: string
  planContent?: string
  actions: string[]
  recommendedAction: string
}
export interface ExitPlanModeResult {
  approved: boolean
  selectedAction?: string
  feedback?: string
}
/** Without one, plans are approved. */
export type ExitPlanModeHandler = (
  request: ExitPlanModeRequest,
  invocation: { sessionId: string },
) => Promise<ExitPlanModeResult> | ExitPlanModeResult

export interface AutoModeSwitchRequest {
  errorCode?: string
  retryAfterSeconds?: number
}
export type AutoModeSwitchResponse = 'yes' | 'yes_always' | 'no'
/** Without one, the answer is "no". */
export type AutoModeSwitchHandler = (
  request: AutoModeSwitchRequest,
  invocation: { sessionId: string },
) => Promise<AutoModeSwitchResponse> | AutoModeSwitchResponse

export interface McpAuthRequest {
  requestId: string
  serverName: string
  serverUrl: string
  reason: 'initial' | 'refresh' | 'reauth' | 'upscope'
  wwwAuthenticateParams?: { resourceMetadataUrl?: string; scope?: string; error?: string }
  resourceMetadata?: string
  staticClientConfig?: {
    clientId: string
    clientSecret?: string
    grantType?: 'client_credentials'
    publicClient?: boolean
    /** Asked for when the server's challenge names none; runtimes since 1.0.89. */
    scope?: string
  }
}
export interface McpAuthToken {
  accessToken: string
  tokenType?: string
  expiresIn?: number
}
export type McpAuthResult = ({ kind: 'token' } & McpAuthToken) | { kind: 'cancelled' }
/** A handler that throws or returns nothing counts as cancelled. */
export type McpAuthHandler = (
  request: McpAuthRequest,
  context: { sessionId: string },
) =>
  McpAuthResult | McpAuthToken | null | undefined | Promise<McpAuthResult | McpAuthToken | null | undefined>

/** Form for a yes or no. */
export const confirmSchema: ElicitationSchema = {
  type: 'object',
  properties: { confirmed: { type: 'boolean', default: true } },
  required: ['confirmed'],
}

export function selectSchema(options: string[]): ElicitationSchema {
  return {
    type: 'object',
    properties: { selection: { type: 'string', enum: options } },
    required: ['selection'],
  }
}

export function inputSchema(options: UiInputOptions = {}): ElicitationSchema {
  const { title, description, minLength, maxLength, format, default: preset } = options
  const field: ElicitationSchemaField = { type: 'string' }
  const given = {
    title: title || undefined,
    description: description || undefined,
    minLength,
    maxLength,
    format,
    default: preset,
  }
  for (const [name, value] of Object.entries(given))
    if (value !== undefined) Object.assign(field, { [name]: value })
  return { type: 'object', properties: { value: field }, required: ['value'] }
}
