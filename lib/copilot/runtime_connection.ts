// The place of the runtime, and how it is started.
import type { CopilotStartSpec } from '../../native/native'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { SheepdogError, invalidOptions } from '../error'
import { absolutePath, folderName } from '../host'
import { check, checkOptions } from '../option'
import type { ClientSettings } from './client_options'

/** A process of its own for the runtime. */
export interface ChildProcessRuntimeConnection {
  /**
   * Program of the runtime; a `.js`, `.mjs` or `.cjs` file runs with this Node.
   *
   * @default the variable COPILOT_CLI_PATH, else the installed platform package
   */
  readonly path?: string
  /**
   * Arguments before those of the client.
   *
   * @default []
   */
  readonly args?: readonly string[]
  /**
   * The whole environment of the process.
   *
   * @default the client's `env`
   */
  readonly env?: Record<string, string>
}

/** A runtime process that is reached through its stdin and stdout. */
export interface StdioRuntimeConnection extends ChildProcessRuntimeConnection {
  /** Kind of the connection. */
  readonly kind: 'stdio'
}

/** A runtime process that listens on a TCP port. */
export interface TcpRuntimeConnection extends ChildProcessRuntimeConnection {
  /** Kind of the connection. */
  readonly kind: 'tcp'
  /**
   * Port to listen on.
   *
   * @default a free port
   */
  readonly port?: number
  /**
   * Secret that protects the port.
   *
   * @default a random one
   */
  readonly connectionToken?: string
}

/** A runtime that is running already. */
export interface UriRuntimeConnection {
  /** Kind of the connection. */
  readonly kind: 'uri'
  /** Address of the runtime. */
  readonly url: string
  /** Secret of the runtime. */
  readonly connectionToken?: string
}

/** Not supported by this package; see docs/copilot.md. */
export interface InProcessRuntimeConnection {
  /** Kind of the connection. */
  readonly kind: 'inprocess'
}

export type RuntimeConnection =
  StdioRuntimeConnection | InProcessRuntimeConnection | TcpRuntimeConnection | UriRuntimeConnection

/** The ways to reach a runtime. */
export const RuntimeConnection = {
  /** A process of ours, over its stdin and stdout. The default. */
  forStdio(options: ChildProcessRuntimeConnection = {}): StdioRuntimeConnection {
    check.object('options', options)
    const { path, args, env } = options
    return { kind: 'stdio', path, args, env }
  },

  /** A process of ours that listens on a TCP port. */
  forTcp(options: Omit<TcpRuntimeConnection, 'kind'> = {}): TcpRuntimeConnection {
    check.object('options', options)
    const { port, connectionToken, path, args, env } = options
    return { kind: 'tcp', port, connectionToken, path, args, env }
  },

  /** A runtime that runs already: "host:port", "[ipv6]:port", "http(s)://host:port" or "port". */
  forUri(url: string, options: { connectionToken?: string } = {}): UriRuntimeConnection {
    check.object('options', options)
    return { kind: 'uri', url, connectionToken: options.connectionToken }
  },

  /** Only there so that programs load: a client of this kind can't be made. */
  forInProcess(): InProcessRuntimeConnection {
    return { kind: 'inprocess' }
  },
} as const

const connectionChecks = {
  kind: check.oneOf('stdio', 'tcp', 'uri', 'inprocess'),
  path: check.string,
  args: check.strings,
  env: check.record,
  port: check.port,
  connectionToken: check.string,
  url: check.string,
}

/** @internal Refuses a connection with a field of another type. */
export function checkConnection(path: string, connection: unknown): void {
  check.object(path, connection)
  // A field that is missing has a default, apart from these.
  const { kind, url } = connection as Partial<UriRuntimeConnection>
  const required = kind === 'uri' ? { kind, url: url ?? null } : { kind: kind ?? null }
  checkOptions({ ...(connection as object), ...required }, connectionChecks, path)
}

/** @internal Host and port of a `forUri` address. */
export function parseAddress(url: string): { host: string; port: number } {
  const rest = url.replace(/^https?:\/\//, '').replace(/\/$/, '')
  const wrong = (): Error =>
    invalidOptions(
      `Invalid cliUrl format: ${url}. Expected "host:port", "[ipv6]:port", "http://host:port", or "port"`,
    )
  const parsePort = (text: string): number => {
    const port = /^\d+$/.test(text) ? Number(text) : Number.NaN
    if (!(port > 0 && port <= 65535)) throw invalidOptions(`Invalid port in cliUrl: ${url}`)
    return port
  }
  if (/^\d+$/.test(rest)) return { host: 'localhost', port: parsePort(rest) }
  const bracketed = /^\[([^\]]+)\]:(\d+)$/.exec(rest)
  if (bracketed) {
    if (!process.getBuiltinModule('node:net').isIPv6(bracketed[1]!))
      throw invalidOptions(`Invalid cliUrl format: ${url}`)
    return { host: bracketed[1]!, port: parsePort(bracketed[2]!) }
  }
  const parts = rest.split(':')
  if (parts.length !== 2) throw wrong()
  return { host: parts[0] || 'localhost', port: parsePort(parts[1]!) }
}

/** OpenTelemetry settings of the runtime's process. */
export interface TelemetryConfig {
  /** Address of the OTLP collector (OTEL_EXPORTER_OTLP_ENDPOINT). */
  otlpEndpoint?: string
  /** Protocol of the collector (OTEL_EXPORTER_OTLP_PROTOCOL). */
  otlpProtocol?: 'http/json' | 'http/protobuf'
  /** File for traces, one JSON object a line (COPILOT_OTEL_FILE_EXPORTER_PATH). */
  filePath?: string
  /** `"otlp-http"` or `"file"` (COPILOT_OTEL_EXPORTER_TYPE). */
  exporterType?: string
  /** Name of the instrumentation scope (COPILOT_OTEL_SOURCE_NAME). */
  sourceName?: string
  /** Whether traces hold prompts and answers (OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT). */
  captureContent?: boolean
}

/** @internal The command for a connection of its own process. */
export function launchCommand(
  connection: StdioRuntimeConnection | TcpRuntimeConnection,
  options: ClientSettings,
  env: Record<string, string | undefined>,
): Pick<CopilotStartSpec, 'command' | 'args'> {
  const path = connection.path ?? env.COPILOT_CLI_PATH ?? findRuntime()
  const isPath = path.includes('/') || path.includes('\\')
  if (isPath && !existsSync(path)) {
    const message = `Copilot CLI not found at ${path}. Set COPILOT_CLI_PATH to use a custom installation.`
    throw new SheepdogError('PROCESS_NOT_FOUND', message, { command: path })
  }
  const args = [...(connection.args ?? []), '--headless', '--no-auto-update']
  if (options.logLevel) args.push('--log-level', options.logLevel)
  if (connection.kind === 'stdio') args.push('--stdio')
  else if (connection.port) args.push('--port', `${connection.port}`)
  if (options.gitHubToken) args.push('--auth-token-env', 'COPILOT_SDK_AUTH_TOKEN')
  if (!options.useLoggedInUser) args.push('--no-auto-login')
  if (options.sessionIdleTimeoutSeconds)
    args.push('--session-idle-timeout', `${options.sessionIdleTimeoutSeconds}`)
  if (options.enableRemoteSessions) args.push('--remote')
  const isScript = /\.[cm]?js$/.test(path)
  return isScript ? { command: process.execPath, args: [path, ...args] } : { command: path, args }
}

/** @internal The environment of the process: the caller's, without what would make the runtime print, and with our settings. */
export function launchEnvironment(
  base: Record<string, string | undefined>,
  options: ClientSettings,
): Record<string, string | undefined> {
  const env: Record<string, string | undefined> = { ...base, NODE_DEBUG: undefined }
  if (options.gitHubToken) env.COPILOT_SDK_AUTH_TOKEN = options.gitHubToken
  if (options.connectionToken) env.COPILOT_CONNECTION_TOKEN = options.connectionToken
  if (options.baseDirectory) env.COPILOT_HOME = options.baseDirectory
  if (options.mode === 'empty') env.COPILOT_DISABLE_KEYTAR = '1'
  else env.COPILOT_RUNTIME_PROCESS_FILE_LOGGING = '1'
  const telemetry = options.telemetry
  if (telemetry) {
    env.COPILOT_OTEL_ENABLED = 'true'
    const settings: [string, string | boolean | undefined][] = [
      ['OTEL_EXPORTER_OTLP_ENDPOINT', telemetry.otlpEndpoint],
      ['OTEL_EXPORTER_OTLP_PROTOCOL', telemetry.otlpProtocol],
      ['COPILOT_OTEL_FILE_EXPORTER_PATH', telemetry.filePath],
      ['COPILOT_OTEL_EXPORTER_TYPE', telemetry.exporterType],
      ['COPILOT_OTEL_SOURCE_NAME', telemetry.sourceName],
      ['OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT', telemetry.captureContent],
    ]
    for (const [name, value] of settings) if (value !== undefined) env[name] = `${value}`
  }
  return env
}

/** The name that the runtime's packages give to this machine. */
function platformName(): string {
  if (process.platform !== 'linux') return `${process.platform}-${process.arch}`
  const report = process.report?.getReport() as { header?: { glibcVersionRuntime?: string } } | undefined
  const isMusl = report?.header !== undefined && report.header.glibcVersionRuntime === undefined
  return `${isMusl ? 'linuxmusl' : 'linux'}-${process.arch}`
}

/** The runtime of the platform package, as the program, the working directory, or this package would resolve it. */
function findRuntime(): string {
  const platform = platformName()
  const name = `@github/copilot-sdk-${platform}`
  const folder = folderName()
  const program = process.argv[1] ? [dirname(absolutePath(process.argv[1]))] : []
  for (const start of [...program, ...(folder === undefined ? [] : [folder]), __dirname]) {
    for (let folder = start; ; folder = dirname(folder)) {
      for (const inside of ['node_modules', 'node_modules/@github/copilot-sdk/node_modules']) {
        const found = join(folder, inside, name, 'prebuilds', platform, 'copilot-runtime')
        if (existsSync(found)) return found
      }
      if (dirname(folder) === folder) break
    }
  }
  throw new SheepdogError(
    'PROCESS_NOT_FOUND',
    `The Copilot runtime is not installed: run \`npm install ${name}\`, set COPILOT_CLI_PATH, or give ` +
      'RuntimeConnection.forStdio({ path })',
    { command: 'copilot-runtime', install: `npm install ${name}` },
  )
}
