// Results of tools: a handler may return any value, the agent gets text or a complete result.
import { isValue, toJson, type JsonValue } from '../json'

/** Outcome of a tool call. */
export type ToolResultType = 'success' | 'failure' | 'rejected' | 'denied' | 'timeout'

/** Binary data in the result of a tool. */
export interface ToolBinaryResult {
  /** The data in base64. */
  data: string
  /** MIME type of the data. */
  mimeType: string
  /** Whether the data is an image or a resource. */
  type: 'image' | 'resource'
  /** Description of the data, for the model. */
  description?: string
}

/** Telemetry that a tool adds to its result. */
export type ToolTelemetry = Record<string, Record<string, JsonValue> | undefined>

/** Complete result of a tool. Any other value that a handler returns is turned into text. */
export interface ToolResultObject {
  /** Text for the model. */
  textResultForLlm: string
  /** Binary data for the model. */
  binaryResultsForLlm?: ToolBinaryResult[]
  /** Outcome of the call. */
  resultType: ToolResultType
  /** Error message of a failed call. */
  error?: string
  /** Text for the session's log. */
  sessionLog?: string
  /** Telemetry of the call. */
  toolTelemetry?: ToolTelemetry
  /** Names of tools that a tool-search tool has found. */
  toolReferences?: string[]
}

/** Result of a tool: a text, or the complete result. */
export type ToolResult = string | ToolResultObject

const resultTypes: unknown[] = [
  'success',
  'failure',
  'rejected',
  'denied',
  'timeout',
] satisfies ToolResultType[]

/** @internal A handler's return value in the form that the runtime takes. */
export function toToolResult(value: unknown): ToolResult {
  if (value === null || value === undefined) return ''
  if (typeof value === 'string') return value
  const result = value as Partial<ToolResultObject>
  if (
    typeof value === 'object' &&
    typeof result.textResultForLlm === 'string' &&
    resultTypes.includes(result.resultType)
  ) {
    return value as ToolResultObject
  }
  return isValue(value) ? toJson('result', value) : ''
}
