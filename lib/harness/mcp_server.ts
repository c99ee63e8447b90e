// MCP servers whose tools an agent is given, in a turn or a session.
import type { McpServerSpec } from '../../native/native'
import { invalidOption } from '../error'
import { check, checkOptions, show } from '../option'
import { pairs } from '../process/environment'

/**
 * An MCP server whose tools the agent may use: one with an HTTP address, or a program that the agent
 * starts.
 */
export type McpServer =
  | {
      /** Name of the server, as the agent shows it. */
      name: string
      /** HTTP address of the server. */
      url: string
      /** HTTP headers of each request, for example a token. */
      headers?: Record<string, string>
    }
  | {
      /** Name of the server, as the agent shows it. */
      name: string
      /** Program that the agent starts; it speaks MCP on stdin and stdout. */
      command: string
      /** Arguments of the program. */
      args?: readonly string[]
      /** Environment variables of the program. */
      env?: Record<string, string>
    }

const serverChecks = {
  name: check.name,
  url: check.name,
  headers: check.recordOf(check.string),
  command: check.name,
  args: check.strings,
  env: check.recordOf(check.string),
}

/** Fields of other files of servers. */
const kind = 'leave it out: a server with `url` is asked over HTTP, one with `command` is started'
const ofOtherFiles = { type: kind, transport: kind, environment: 'use `env`' }

/** Checks `mcpServers`. */
export function checkServers(path: string, value: unknown): void {
  if (!Array.isArray(value)) {
    const hint =
      typeof value === 'object' && value !== null ? ': write { name: "x", ... } for each "x": {...}' : ''
    throw invalidOption(path, `expected an array, got ${show(value)}${hint}`)
  }
  checkEach(path, value)
}

const checkEach = check.listOf((at, server) => {
  check.object(at, server)
  checkOptions(server as object, serverChecks, at, ofOtherFiles)
  const { name, url, command } = server as { name?: string; url?: string; command?: string }
  if (name === undefined) throw invalidOption(`${at}.name`, 'is missing')
  if ((url === undefined) === (command === undefined)) {
    throw invalidOption(at, 'expected either url or command')
  }
})

/** The servers as they cross to the core. */
export function serverSpecs(servers: readonly McpServer[]): McpServerSpec[] {
  return servers.map((server) => ({
    name: server.name,
    ...('url' in server
      ? { url: server.url, headers: pairs(server.headers), args: [], env: [] }
      : { command: server.command, args: server.args ?? [], env: pairs(server.env), headers: [] }),
  }))
}
