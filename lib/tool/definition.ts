// Tools that run in this process, for the sessions of any agent: their definition, and what is wrong with one.
import { quoted, type JsonValue } from '../json'
import { invalidOption } from '../error'
import { show } from '../option'

/** A tool that tool search can find. */
export interface FoundTool {
  /** Name of the tool. */
  name: string
  /** Name of the tool together with that of its server. */
  namespacedName?: string
  /** Name of the MCP server that has the tool. */
  mcpServerName?: string
  /** Name of the tool at its MCP server. */
  mcpToolName?: string
  /** Description of the tool, for the model. */
  description: string
  /** JSON Schema of the arguments. */
  input_schema?: { [key: string]: JsonValue | undefined }
  /** Whether the tool is out of the prompt until it is found. */
  deferLoading?: boolean
}

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
  availableTools?: FoundTool[]
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
  if (problem)
    throw invalidOption(`tool ${typeof name === 'string' ? quoted(name) : show(name)}`, problem.join(': '))
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

/** @internal JSON Schema of a tool's parameters. */
export function toJsonSchema(parameters: Tool['parameters']): unknown {
  const schema = parameters as Partial<ZodSchema> | undefined
  return typeof schema?.toJSONSchema === 'function' ? schema.toJSONSchema() : schema
}
