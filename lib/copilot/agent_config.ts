// Custom agents of a session, and the MCP servers of agents.
import type { ReasoningEffort } from './model'

interface MCPServerConfigBase {
  /**
   * Tools of the server that may be used. An empty list allows none.
   *
   * @default all tools of the server
   */
  tools?: string[]
  /** Kind of the server. */
  type?: string
  /** Longest time of a tool call, in milliseconds. */
  timeout?: number
}
/** An MCP server that the runtime starts as a program. */
export interface MCPStdioServerConfig extends MCPServerConfigBase {
  /**
   * Kind of the server.
   *
   * @default "stdio"
   */
  type?: 'local' | 'stdio'
  /** Program of the server. */
  command: string
  /**
   * Arguments of the program.
   *
   * @default []
   */
  args?: string[]
  /** Environment variables of the program. */
  env?: Record<string, string>
  /** Working directory of the program. */
  workingDirectory?: string
}
/** An MCP server with an HTTP address. */
export interface MCPHTTPServerConfig extends MCPServerConfigBase {
  /** Kind of the server. */
  type: 'http' | 'sse'
  /** Address of the server. */
  url: string
  /** HTTP headers of each request. */
  headers?: Record<string, string>
}
/** An MCP server. */
export type MCPServerConfig = MCPStdioServerConfig | MCPHTTPServerConfig

/** A custom agent. */
export interface CustomAgentConfig {
  /** Name of the agent, unique in the session. */
  name: string
  /** Name of the agent, for people. */
  displayName?: string
  /** Description of the agent's work. */
  description?: string
  /**
   * Names of the tools that the agent may use; null means all.
   *
   * @default all tools
   */
  tools?: string[] | null
  /** Instructions of the agent. */
  prompt: string
  /** MCP servers of this agent, by name. */
  mcpServers?: Record<string, MCPServerConfig>
  /**
   * Whether the model may choose this agent by itself.
   *
   * @default true
   */
  infer?: boolean
  /**
   * Names of skills whose text is in the agent's context from the start.
   *
   * @default none
   */
  skills?: string[]
  /** Model of the agent. The session's model is used when it is not available. */
  model?: string
  /** Reasoning effort of that model. */
  reasoningEffort?: ReasoningEffort
}
/** Settings of the built-in agent, which works when no custom agent is selected. */
export interface DefaultAgentConfig {
  /**
   * Tools that only custom agents may use.
   *
   * @default []
   */
  excludedTools?: string[]
}
/** Settings of the built-in GitHub MCP server. */
export interface GitHubMcpToolConfig {
  /** Enable all its tools. */
  enableAllTools?: boolean
  /** Further groups of tools to enable. */
  additionalToolsets?: string[]
  /** Further tools to enable. */
  additionalTools?: string[]
  /** Enable tools that are not released yet. */
  enableInsidersMode?: boolean
  /** Do not defer tools with forms. Only with MCP Apps. */
  disableFormDeferral?: boolean
}
