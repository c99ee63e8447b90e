// Tools that the program offers to the agent, and the choice of tools.
import { isValue, quoted, toJson } from '../json'
import { invalidOption, SheepdogError } from '../error'
import type { CurrentToolMetadata } from './generated'
import type { JsonValue } from './json'

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

/** A tool call, for the tool's handler. */
export interface ToolInvocation {
  /** Id of the session. */
  sessionId: string
  /** Id of the call. */
  toolCallId: string
  /** Name of the tool. */
  toolName: string
  /** Arguments of the call. */
  arguments: unknown
  /** Tools that can be found. Only for the tool-search tool. */
  availableTools?: CurrentToolMetadata[]
  /** W3C `traceparent` of the call's span. */
  traceparent?: string
  /** W3C `tracestate` of the call's span. */
  tracestate?: string
  /** Aborted when the call or the session is over and the result is no longer needed. */
  signal?: AbortSignal
}

/** Runs a tool. It may return any value that can be written as JSON. */
export type ToolHandler<TArgs = unknown> = (
  args: TArgs,
  invocation: ToolInvocation,
) => Promise<unknown> | unknown

/** A schema of a library that can give its JSON Schema (zod 4). */
export interface ZodSchema<T = unknown> {
  /** Type of the schema's output; there is no value at run time. */
  _output: T
  /** Gives the JSON Schema. */
  toJSONSchema(): Record<string, unknown>
}

/** A tool that runs in this process. */
export interface Tool<TArgs = unknown> {
  /** Name of the tool. */
  name: string
  /** Description of the tool, for the model. */
  description?: string
  /**
   * Schema of the arguments: a zod schema or a JSON Schema. Without one the tool takes no arguments.
   */
  parameters?: ZodSchema<TArgs> | Record<string, unknown>
  /**
   * Runs the tool. Without one, calls are only announced as events, and your program answers them by
   * RPC.
   */
  handler?: ToolHandler<TArgs>
  /**
   * Replace the built-in tool with the same name. Without it the runtime refuses such a name.
   *
   * @default false
   */
  overridesBuiltInTool?: boolean
  /**
   * Run the tool without a permission request.
   *
   * @default false
   */
  skipPermission?: boolean
  /**
   * The tool changes nothing. A session of an agent may then call it at every level, also at `"plan"`.
   *
   * @default false
   */
  readOnly?: boolean
  /**
   * `"auto"`: the tool may be left out of the prompt until the model finds it by tool search.
   * `"never"`: the tool is always in the prompt.
   *
   * @default "auto"
   */
  defer?: 'auto' | 'never'
  /** Data of your own that is kept with the definition. */
  metadata?: Record<string, unknown>
  /**
   * A successful call of this tool ends the turn.
   *
   * @default false
   */
  isTerminal?: boolean
}

/** Settings of the runtime's tool search. */
export interface ToolSearchConfig {
  /** Whether tool search is used. Without it all tools are always in the prompt. */
  enabled?: boolean
  /**
   * Number of tools above which MCP tools and your own tools are left to tool search.
   *
   * @default 30
   */
  deferThreshold?: number
}

/**
 * Defines a tool whose arguments have the types of its schema.
 *
 * @example
 * const ticket = defineTool('ticket', {
 *   description: 'Reads a ticket.',
 *   parameters: { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] },
 *   handler: ({ id }: { id: string }) => readTicket(id),
 * })
 */
export function defineTool<T = unknown>(name: string, config: Omit<Tool<T>, 'name'>): Tool<T> {
  const tool = { name, ...config }
  const problem = toolProblem(tool)
  if (problem) throw invalidOption(`tool ${quoted(name)}`, problem.join(': '))
  return tool
}

/** Names of tools, and names of arguments, that the services of models accept. */
const toolName = /^[a-zA-Z0-9_-]{1,64}$/
const argumentName = /^[a-zA-Z0-9_.-]{1,64}$/

/** @internal The field of a tool that no model could be given, and what is wrong with it. A service refuses the whole prompt for one. */
export function toolProblem({
  name,
  parameters,
}: {
  name?: unknown
  parameters?: unknown
}): [string, string] | undefined {
  if (typeof name !== 'string' || !toolName.test(name))
    return ['name', 'expected 1 to 64 letters, digits, "_" and "-", which is what models take']
  const schema = toJsonSchema(parameters as Tool['parameters'])
  if (typeof schema !== 'object' || schema === null || Array.isArray(schema))
    return schema === undefined ? undefined : ['parameters', 'expected a JSON Schema, an object']
  const { type = 'object', properties, ...rest } = schema as Record<string, unknown>
  if (type !== 'object')
    return ['parameters', `expected the schema of an object, which holds the arguments, got ${quoted(type)}`]
  const choice = ['oneOf', 'anyOf', 'allOf', 'not', 'enum'].find((keyword) => keyword in rest)
  if (choice)
    return ['parameters', `models take no ${quoted(choice)} at the top of a schema: put it into a property`]
  const odd = Object.keys((properties ?? {}) as object).find((key) => !argumentName.test(key))
  if (odd === undefined) return
  return ['parameters', `expected names of 1 to 64 letters, digits, "_", "." and "-", got ${quoted(odd)}`]
}

/** JSON Schema of a tool's parameters. */
export function toJsonSchema(parameters: Tool['parameters']): unknown {
  const schema = parameters as Partial<ZodSchema> | undefined
  return typeof schema?.toJSONSchema === 'function' ? schema.toJSONSchema() : schema
}

const resultTypes: unknown[] = [
  'success',
  'failure',
  'rejected',
  'denied',
  'timeout',
] satisfies ToolResultType[]

/** A handler's return value in the form that the runtime takes. */
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

type McpContent =
  | { type: 'text'; text: string }
  | { type: 'image'; data: string; mimeType: string }
  | { type: 'resource'; resource: { uri: string; mimeType?: string; text?: string; blob?: string } }

/** Converts the result of an MCP tool into a tool result. */
export function convertMcpCallToolResult(callResult: {
  content: McpContent[]
  isError?: boolean
}): ToolResultObject {
  const texts: string[] = []
  const binaries: ToolBinaryResult[] = []
  for (const block of callResult.content) {
    if (block.type === 'text' && typeof block.text === 'string') texts.push(block.text)
    if (block.type === 'image' && block.data && typeof block.mimeType === 'string') {
      binaries.push({ data: block.data, mimeType: block.mimeType, type: 'image' })
    }
    if (block.type === 'resource' && block.resource) {
      const { text, blob, mimeType, uri } = block.resource
      if (text) texts.push(text)
      if (blob) {
        const type = mimeType || 'application/octet-stream'
        binaries.push({ data: blob, mimeType: type, type: 'resource', description: uri })
      }
    }
  }
  const result: ToolResultObject = {
    textResultForLlm: texts.join('\n'),
    resultType: callResult.isError ? 'failure' : 'success',
  }
  if (binaries.length > 0) result.binaryResultsForLlm = binaries
  return result
}

function checkName(kind: string, name: string): void {
  if (name !== '*' && !/^[a-zA-Z0-9_-]+$/.test(name)) {
    throw new SheepdogError(
      'INVALID_OPTION',
      `Invalid ${kind} tool name '${name}': tool names must match /^[a-zA-Z0-9_-]+$/ or be the wildcard '*'.`,
    )
  }
}

/** A selection of tools by their source. Every method returns the set itself. */
export class ToolSet {
  readonly #items: string[] = []

  #add(kind: string, name: string): this {
    checkName(kind, name)
    this.#items.push(`${kind}:${name}`)
    return this
  }

  /** Adds built-in tools by name. */
  addBuiltIn(names: string | readonly string[]): this {
    for (const name of typeof names === 'string' ? [names] : names) this.#add('builtin', name)
    return this
  }

  /** Adds a tool of `tools` or of a custom agent by name. */
  addCustom(name: string): this {
    return this.#add('custom', name)
  }

  /** Adds a tool of an MCP server by name. */
  addMcp(toolName: string): this {
    return this.#add('mcp', toolName)
  }

  /** Gives the selection as a list of patterns. */
  toArray(): string[] {
    return [...this.#items]
  }
}

/** Groups of the runtime's built-in tools. */
export const BuiltInTools = {
  /** Tools that stay within their session: no files of the host, no network, no other session. */
  Isolated: [
    'ask_user',
    'task_complete',
    'exit_plan_mode',
    'task',
    'read_agent',
    'write_agent',
    'list_agents',
    'send_inbox',
    'context_board',
    'skill',
  ] as const,
}

/** The list of a filter, checked. */
export function toFilterList(field: string, value: string[] | ToolSet | undefined): string[] | undefined {
  const list = value instanceof ToolSet ? value.toArray() : value
  if (list?.includes('*')) {
    throw new SheepdogError(
      'INVALID_OPTION',
      `Invalid ${field} entry '*': there is no bare wildcard. Use one or more of ` +
        "`new ToolSet().addBuiltIn('*')`, `.addMcp('*')`, or `.addCustom('*')` to target a specific source.",
    )
  }
  return list
}
