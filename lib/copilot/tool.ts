// Tools that the program offers to the agent, and the choice of tools.
import { SheepdogError } from '../error'
import type { CurrentToolMetadata } from './generated'
import type { JsonValue } from './json'

export type ToolResultType = 'success' | 'failure' | 'rejected' | 'denied' | 'timeout'

export interface ToolBinaryResult {
  /** Base64. */
  data: string
  mimeType: string
  type: 'image' | 'resource'
  description?: string
}

export type ToolTelemetry = Record<string, Record<string, JsonValue> | undefined>

/** A tool's result in full; anything else that a handler returns is turned into text. */
export interface ToolResultObject {
  textResultForLlm: string
  binaryResultsForLlm?: ToolBinaryResult[]
  resultType: ToolResultType
  error?: string
  sessionLog?: string
  toolTelemetry?: ToolTelemetry
  toolReferences?: string[]
}

export type ToolResult = string | ToolResultObject

/** What a handler is told beside its arguments. */
export interface ToolInvocation {
  sessionId: string
  toolCallId: string
  toolName: string
  arguments: unknown
  /** For the tool-search tool: what there is to find. */
  availableTools?: CurrentToolMetadata[]
  traceparent?: string
  tracestate?: string
  /** Aborted when the call is over elsewhere, or the session is. */
  signal?: AbortSignal
}

export type ToolHandler<TArgs = unknown> = (
  args: TArgs,
  invocation: ToolInvocation,
) => Promise<unknown> | unknown

/** A schema library's object that knows its JSON Schema (zod 4). */
export interface ZodSchema<T = unknown> {
  _output: T
  toJSONSchema(): Record<string, unknown>
}

export interface Tool<TArgs = unknown> {
  name: string
  description?: string
  parameters?: ZodSchema<TArgs> | Record<string, unknown>
  /** Without one, the calls are only announced as events, for the program to answer by RPC. */
  handler?: ToolHandler<TArgs>
  overridesBuiltInTool?: boolean
  skipPermission?: boolean
  defer?: 'auto' | 'never'
  metadata?: Record<string, unknown>
  isTerminal?: boolean
}

export interface ToolSearchConfig {
  enabled?: boolean
  deferThreshold?: number
}

/** A tool, its arguments typed by its schema. */
export function defineTool<T = unknown>(name: string, config: Omit<Tool<T>, 'name'>): Tool<T> {
  return { name, ...config }
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

/** What a handler returned, as the runtime takes it. */
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
  return JSON.stringify(value) ?? ''
}

type McpContent =
  | { type: 'text'; text: string }
  | { type: 'image'; data: string; mimeType: string }
  | { type: 'resource'; resource: { uri: string; mimeType?: string; text?: string; blob?: string } }

/** An MCP server's tool result as one of the agent's. */
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

/** A choice of tools by their source; every method returns the set itself. */
export class ToolSet {
  readonly #items: string[] = []

  #add(kind: string, name: string): this {
    checkName(kind, name)
    this.#items.push(`${kind}:${name}`)
    return this
  }

  addBuiltIn(names: string | readonly string[]): this {
    for (const name of typeof names === 'string' ? [names] : names) this.#add('builtin', name)
    return this
  }

  addCustom(name: string): this {
    return this.#add('custom', name)
  }

  addMcp(toolName: string): this {
    return this.#add('mcp', toolName)
  }

  toArray(): string[] {
    return [...this.#items]
  }
}

/** Sets of the runtime's own tools. */
export const BuiltInTools = {
  /** Those that stay within their session: no host files, no network, no other session. */
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
