// The choice of tools, and results of MCP tools.
import { invalidOptions } from '../error'
import { check } from '../option'
import type { ToolBinaryResult, ToolResultObject } from '../tool/result'

/** Settings for large results of tools. */
export interface LargeToolOutputConfig {
  /**
   * Whether a large result is written to a file, and the model gets a reference to it.
   *
   * @default true
   */
  enabled?: boolean
  /**
   * Size above which a result is written to a file, in bytes.
   *
   * @default 51_200
   */
  maxSizeBytes?: number
  /**
   * Folder for these files.
   *
   * @default the system's temporary folder
   */
  outputDirectory?: string
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

type McpContent =
  | { type: 'text'; text: string }
  | { type: 'image'; data: string; mimeType: string }
  | { type: 'resource'; resource: { uri: string; mimeType?: string; text?: string; blob?: string } }

/** Converts the result of an MCP tool into a tool result. */
export function convertMcpCallToolResult(callResult: {
  content: McpContent[]
  isError?: boolean
}): ToolResultObject {
  check.object('callResult', callResult)
  check.listOf(check.object)('callResult.content', callResult.content)
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

/** A selection of tools by their source. Every method returns the set itself. */
export class ToolSet {
  readonly #items: string[] = []

  #add(kind: string, name: string): this {
    check.string('name', name)
    if (name !== '*' && !/^[a-zA-Z0-9_-]+$/.test(name))
      throw invalidOptions(
        `Invalid ${kind} tool name '${name}': tool names must match /^[a-zA-Z0-9_-]+$/ or be the wildcard '*'.`,
      )
    this.#items.push(`${kind}:${name}`)
    return this
  }

  /** Adds built-in tools by name. */
  addBuiltIn(names: string | readonly string[]): this {
    const list = typeof names === 'string' ? [names] : names
    check.strings('names', list)
    for (const name of list) this.#add('builtin', name)
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

/** @internal The list of a filter, checked. */
export function toFilterList(field: string, value: string[] | ToolSet | undefined): string[] | undefined {
  const list = value instanceof ToolSet ? value.toArray() : value
  if (list != null) check.strings(field, list)
  if (list?.includes('*')) {
    throw invalidOptions(
      `Invalid ${field} entry '*': there is no bare wildcard. Use one or more of ` +
        "`new ToolSet().addBuiltIn('*')`, `.addMcp('*')`, or `.addCustom('*')` to target a specific source.",
    )
  }
  return list
}
