// What a client can be told, and what follows from it.
import { SheepdogError, invalidOption } from '../error'
import { check, checkOptions } from '../option'
import type { GitHubTelemetryNotification } from './generated'
import type { TraceContextProvider } from './message'
import type { ModelInfo } from './model'
import type { ExtensionLaunchProvider, InstallationConfirmationHandler } from './installation'
import type { CopilotRequestHandler } from './request_handler'
import {
  type InProcessRuntimeConnection,
  type LaunchOptions,
  RuntimeConnection,
  type TelemetryConfig,
  parseAddress,
} from './runtime_connection'
import type { SessionFsConfig } from './session_fs'
import { randomUUID } from 'node:crypto'
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'

export type CopilotClientMode = 'empty' | 'copilot-cli'

export interface CopilotClientInfo {
  applicationName?: string
  applicationVersion?: string
  integrationName?: string
  integrationVersion?: string
}

export interface CopilotClientOptions {
  /** Default `RuntimeConnection.forStdio()`. */
  connection?: RuntimeConnection
  /** "empty": sessions have nothing that they were not given. Default "copilot-cli". */
  mode?: CopilotClientMode
  /** Default `process.cwd()`. */
  workingDirectory?: string
  /** The runtime's home (COPILOT_HOME): its settings, and all session histories. */
  baseDirectory?: string
  builtinPluginDirectories?: readonly string[]
  logLevel?: 'none' | 'error' | 'warning' | 'info' | 'debug' | 'all'
  /** The runtime's whole environment; default `process.env`. */
  env?: Record<string, string | undefined>
  gitHubToken?: string
  /** Default true, or false with a `gitHubToken`. */
  useLoggedInUser?: boolean
  /** Instead of asking the runtime. */
  onListModels?: () => Promise<ModelInfo[]> | ModelInfo[]
  telemetry?: TelemetryConfig
  onGetTraceContext?: TraceContextProvider
  /** The program keeps the sessions' files: every session needs a `createSessionFsProvider`. */
  sessionFs?: SessionFsConfig
  /** The program makes the runtime's model requests. */
  requestHandler?: CopilotRequestHandler
  onGitHubTelemetry?: (notification: GitHubTelemetryNotification) => void | Promise<void>
  /** 0 (default): sessions are never ended for idleness. */
  sessionIdleTimeoutSeconds?: number
  enableRemoteSessions?: boolean
  clientInfo?: CopilotClientInfo
  /** Says how extensions that the runtime found are launched; runtimes since 1.0.89. */
  extensionLaunchProvider?: ExtensionLaunchProvider
  /** Asks a person whether something is to be installed; runtimes since 1.0.89. */
  installationConfirmationHandler?: InstallationConfirmationHandler
  /** From the start of the process to the end of the handshake; default 30_000. CONNECTION_TIMED_OUT. */
  startTimeoutMs?: number
  /** Lines that the runtime writes to stderr; nothing is printed unasked. */
  onStderr?: (line: string) => void
  /**
   * After a crash: "never" (default) until `start()` is called; "on-demand": the next call starts the runtime again, and
   * sessions that had no turn running are resumed. No message is ever sent twice.
   */
  restart?: 'never' | 'on-demand'
}

const knownOptions = {
  connection: check.object,
  mode: check.oneOf('empty', 'copilot-cli'),
  workingDirectory: check.string,
  baseDirectory: check.string,
  builtinPluginDirectories: check.strings,
  logLevel: check.oneOf('none', 'error', 'warning', 'info', 'debug', 'all'),
  env: check.record,
  gitHubToken: check.string,
  useLoggedInUser: check.boolean,
  onListModels: check.function,
  telemetry: check.object,
  onGetTraceContext: check.function,
  sessionFs: check.object,
  requestHandler: check.object,
  onGitHubTelemetry: check.function,
  sessionIdleTimeoutSeconds: check.anyOf('a number of seconds', check.timeout),
  enableRemoteSessions: check.boolean,
  clientInfo: check.object,
  extensionLaunchProvider: check.object,
  installationConfirmationHandler: check.function,
  startTimeoutMs: check.timeout,
  onStderr: check.function,
  restart: check.oneOf('never', 'on-demand'),
}

/** Options with their defaults, checked. */
export interface ClientSettings extends LaunchOptions {
  connection: Exclude<RuntimeConnection, InProcessRuntimeConnection>
  address: { host: string; port: number } | undefined
  workingDirectory: string
  env: Record<string, string | undefined>
  /** Where the session histories are, if they can be read from here. */
  home: string | undefined
}

function defaultConnection(): RuntimeConnection {
  const value = process.env.COPILOT_SDK_DEFAULT_CONNECTION
  if (!value || value.toLowerCase() === 'stdio') return RuntimeConnection.forStdio()
  if (value.toLowerCase() === 'inprocess') return RuntimeConnection.forInProcess()
  throw new SheepdogError(
    'INVALID_OPTION',
    `Invalid COPILOT_SDK_DEFAULT_CONNECTION value '${value}'. Expected 'inprocess', 'stdio', or unset.`,
  )
}

export function toSettings(options: CopilotClientOptions): ClientSettings {
  checkOptions(options, knownOptions)
  const connection = options.connection ?? defaultConnection()
  if (
    connection.kind === 'uri' &&
    (options.gitHubToken !== undefined || options.useLoggedInUser !== undefined)
  ) {
    throw new SheepdogError(
      'INVALID_OPTION',
      'gitHubToken and useLoggedInUser cannot be used with RuntimeConnection.forUri (external server manages its own auth)',
    )
  }
  if (connection.kind === 'inprocess') {
    throw invalidOption(
      'connection',
      'a runtime inside this process is not supported; use RuntimeConnection.forStdio()',
    )
  }
  const ownEnv = connection.kind === 'uri' ? undefined : connection.env
  if (ownEnv !== undefined && options.env !== undefined) {
    throw new SheepdogError(
      'INVALID_OPTION',
      "Set environment variables via either the client-level env option or the connection's env " +
        '(RuntimeConnection.forStdio/forTcp), not both. Prefer the connection-level env for child-process transports.',
    )
  }
  if (connection.kind === 'tcp' && connection.connectionToken !== undefined) {
    if (typeof connection.connectionToken !== 'string' || connection.connectionToken === '') {
      throw new SheepdogError('INVALID_OPTION', 'connectionToken must be a non-empty string')
    }
  }
  checkSessionFs(options.sessionFs)
  for (const path of options.builtinPluginDirectories ?? []) {
    if (!isAbsolute(path))
      throw new SheepdogError(
        'INVALID_OPTION',
        `builtinPluginDirectories must contain only absolute paths: ${path}`,
      )
  }
  const isEmptyMode = options.mode === 'empty'
  if (isEmptyMode && !options.baseDirectory && !options.sessionFs && connection.kind !== 'uri') {
    throw new SheepdogError(
      'INVALID_OPTION',
      "CopilotClient was created with mode: 'empty' but neither 'baseDirectory' nor 'sessionFs' was set. " +
        'Empty mode requires an explicit per-session persistence location; pick one.',
    )
  }
  const env = ownEnv ?? options.env ?? process.env
  return {
    connection,
    address: connection.kind === 'uri' ? parseAddress(connection.url) : undefined,
    workingDirectory: options.workingDirectory ?? process.cwd(),
    env,
    home: homeOf(options, connection, env),
    logLevel: options.logLevel,
    gitHubToken: options.gitHubToken,
    useLoggedInUser: options.useLoggedInUser ?? !options.gitHubToken,
    sessionIdleTimeoutSeconds: options.sessionIdleTimeoutSeconds ?? 0,
    enableRemoteSessions: options.enableRemoteSessions ?? false,
    connectionToken:
      connection.kind === 'tcp'
        ? (connection.connectionToken ?? randomUUID())
        : connection.kind === 'uri'
          ? connection.connectionToken
          : undefined,
    baseDirectory: options.baseDirectory,
    isEmptyMode,
    telemetry: options.telemetry,
  }
}

function checkSessionFs(config: SessionFsConfig | undefined): void {
  if (!config) return
  if (!config.initialCwd) throw new SheepdogError('INVALID_OPTION', 'sessionFs.initialCwd is required')
  if (!config.sessionStatePath)
    throw new SheepdogError('INVALID_OPTION', 'sessionFs.sessionStatePath is required')
  if (config.conventions !== 'windows' && config.conventions !== 'posix') {
    throw new SheepdogError('INVALID_OPTION', "sessionFs.conventions must be either 'windows' or 'posix'")
  }
}

function homeOf(
  options: CopilotClientOptions,
  connection: RuntimeConnection,
  env: Record<string, string | undefined>,
): string | undefined {
  // Histories that the program keeps, or that are on another machine, can't be looked at.
  if (options.sessionFs) return undefined
  if (connection.kind === 'uri') return options.baseDirectory
  return options.baseDirectory ?? (env.COPILOT_HOME || join(env.HOME || homedir(), '.copilot'))
}

/** `clientInfo` of the handshake. */
export function toWireClientInfo(info: CopilotClientInfo | undefined): Record<string, string> | undefined {
  const wire: Record<string, string> = {}
  if (info?.applicationName) wire.editorName = info.applicationName
  if (info?.applicationVersion) wire.editorVersion = info.applicationVersion
  if (info?.integrationName) wire.extensionName = info.integrationName
  if (info?.integrationVersion) wire.extensionVersion = info.integrationVersion
  return Object.keys(wire).length > 0 ? wire : undefined
}
