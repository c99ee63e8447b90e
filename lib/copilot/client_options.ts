// The options of a client, and what follows from them.
import { invalidOption, invalidOptions } from '../error'
import { environment, home, variable } from '../host'
import { check, checkOptions } from '../option'
import type { GitHubTelemetryNotification } from './generated'
import type { TraceContextProvider } from './message'
import type { ModelInfo } from './model'
import type { ExtensionLaunchProvider, InstallationConfirmationHandler } from './installation'
import type { CopilotRequestHandler } from './request_handler'
import {
  type InProcessRuntimeConnection,
  RuntimeConnection,
  type TelemetryConfig,
  checkConnection,
  parseAddress,
} from './runtime_connection'
import type { SessionFsConfig } from './session_fs'
import { isAbsolute, join } from 'node:path'

/**
 * Defaults of sessions. `"copilot-cli"`: as in the Copilot CLI. `"empty"`: a session has only what it
 * is given; for servers with many users.
 */
export type CopilotClientMode = 'empty' | 'copilot-cli'

/** Names of the application, for the telemetry that the runtime sends to GitHub. */
export interface CopilotClientInfo {
  /** Name of the application. */
  applicationName?: string
  /** Version of the application. */
  applicationVersion?: string
  /** Name of an extension or plugin in the application. */
  integrationName?: string
  /** Version of that integration. */
  integrationVersion?: string
}

/** Options of a client of the Copilot CLI's runtime. */
export interface CopilotClientOptions {
  /**
   * How to reach the runtime.
   *
   * @default RuntimeConnection.forStdio()
   */
  connection?: RuntimeConnection
  /**
   * Defaults of sessions. In mode `"empty"` every session needs `availableTools`.
   *
   * @default "copilot-cli"
   */
  mode?: CopilotClientMode
  /**
   * Working directory of the runtime.
   *
   * @default process.cwd()
   */
  workingDirectory?: string
  /**
   * Home folder of the runtime (COPILOT_HOME), with its settings and all session histories.
   *
   * @default the runtime's own choice
   */
  baseDirectory?: string
  /**
   * Absolute paths of trusted plugin folders. They are registered before any session is opened.
   *
   * @default []
   */
  builtinPluginDirectories?: readonly string[]
  /**
   * Log level of the runtime.
   *
   * @default the runtime's own choice
   */
  logLevel?: 'none' | 'error' | 'warning' | 'info' | 'debug' | 'all'
  /**
   * The whole environment of the runtime.
   *
   * @default process.env
   */
  env?: Record<string, string | undefined>
  /**
   * GitHub token to sign in with.
   *
   * @default none
   */
  gitHubToken?: string
  /**
   * Whether to use the account that is signed in on this machine.
   *
   * @default true, or false with a `gitHubToken`
   */
  useLoggedInUser?: boolean
  /** Gives the list of models instead of the runtime. */
  onListModels?: () => Promise<ModelInfo[]> | ModelInfo[]
  /** OpenTelemetry settings of the runtime's process. */
  telemetry?: TelemetryConfig
  /** Gives the W3C trace context of your own spans, so that the runtime's spans belong to them. */
  onGetTraceContext?: TraceContextProvider
  /**
   * Your program stores the sessions' files instead of the runtime. Every session then needs a
   * `createSessionFsProvider`.
   */
  sessionFs?: SessionFsConfig
  /** Sends the runtime's model requests instead of the runtime. */
  requestHandler?: CopilotRequestHandler
  /** Receives the telemetry events that the runtime forwards. */
  onGitHubTelemetry?: (notification: GitHubTelemetryNotification) => void | Promise<void>
  /**
   * The runtime ends a session that has been idle for this long, in seconds. 0 means never.
   *
   * @default 0
   */
  sessionIdleTimeoutSeconds?: number
  /**
   * Make sessions in a GitHub repository available on GitHub's web and mobile pages. No effect with
   * `RuntimeConnection.forUri`.
   *
   * @default false
   */
  enableRemoteSessions?: boolean
  /** Names of the application, for telemetry. */
  clientInfo?: CopilotClientInfo
  /** Decides how extensions that the runtime has found are launched. Needs runtime 1.0.89 or newer. */
  extensionLaunchProvider?: ExtensionLaunchProvider
  /** Asks a person whether something may be installed. Needs runtime 1.0.89 or newer. */
  installationConfirmationHandler?: InstallationConfirmationHandler
  /**
   * Longest time from the start of the process to the end of the handshake, in milliseconds.
   *
   * @default 30_000
   * @throws CONNECTION_TIMED_OUT
   */
  startTimeoutMs?: number
  /**
   * Called for each line that the runtime writes to stderr.
   *
   * @default the lines are not printed; their end is in errors
   */
  onStderr?: (line: string) => void
  /**
   * Behaviour after a crash of the runtime. `"never"`: calls reject until `start()` is called.
   * `"on-demand"`: the next call starts the runtime again, and sessions that had no turn running are
   * resumed. No message is ever sent twice.
   *
   * @default "never"
   */
  restart?: 'never' | 'on-demand'
}

const knownOptions = {
  connection: checkConnection,
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
export interface ClientSettings extends CopilotClientOptions {
  connection: Exclude<RuntimeConnection, InProcessRuntimeConnection>
  address: { host: string; port: number } | undefined
  connectionToken: string | undefined
  env: Record<string, string | undefined>
  /** Folder of the session histories, if they can be read from here. */
  home: string | undefined
}

function defaultConnection(): RuntimeConnection {
  const value = variable('COPILOT_SDK_DEFAULT_CONNECTION')
  if (!value || value.toLowerCase() === 'stdio') return RuntimeConnection.forStdio()
  if (value.toLowerCase() === 'inprocess') return RuntimeConnection.forInProcess()
  throw invalidOptions(
    `Invalid COPILOT_SDK_DEFAULT_CONNECTION value '${value}'. Expected 'inprocess', 'stdio', or unset.`,
  )
}

export function toSettings(options: CopilotClientOptions): ClientSettings {
  checkOptions(options, knownOptions)
  const connection = usable(options.connection ?? defaultConnection(), options)
  checkPlaces(options, connection)
  const env = (connection.kind === 'uri' ? undefined : connection.env) ?? options.env ?? environment()
  return {
    ...options,
    connection,
    address: connection.kind === 'uri' ? parseAddress(connection.url) : undefined,
    env,
    home: homeOf(options, connection, env),
    useLoggedInUser: options.useLoggedInUser ?? !options.gitHubToken,
    connectionToken:
      connection.kind === 'tcp'
        ? (connection.connectionToken ?? crypto.randomUUID())
        : connection.kind === 'uri'
          ? connection.connectionToken
          : undefined,
  }
}

/** The connection, if it can be made with these options. */
function usable(connection: RuntimeConnection, options: CopilotClientOptions): ClientSettings['connection'] {
  if (
    connection.kind === 'uri' &&
    (options.gitHubToken !== undefined || options.useLoggedInUser !== undefined)
  ) {
    throw invalidOptions(
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
    throw invalidOptions(
      "Set environment variables via either the client-level env option or the connection's env " +
        '(RuntimeConnection.forStdio/forTcp), not both. Prefer the connection-level env for child-process transports.',
    )
  }
  if (connection.kind === 'tcp' && connection.connectionToken === '')
    throw invalidOptions('connectionToken must be a non-empty string')
  return connection
}

function checkPlaces(options: CopilotClientOptions, connection: RuntimeConnection): void {
  checkSessionFs(options.sessionFs)
  for (const path of options.builtinPluginDirectories ?? []) {
    if (!isAbsolute(path))
      throw invalidOptions(`builtinPluginDirectories must contain only absolute paths: ${path}`)
  }
  if (options.mode === 'empty' && !options.baseDirectory && !options.sessionFs && connection.kind !== 'uri') {
    throw invalidOptions(
      "CopilotClient was created with mode: 'empty' but neither 'baseDirectory' nor 'sessionFs' was set. " +
        'Empty mode requires an explicit per-session persistence location; pick one.',
    )
  }
}

function checkSessionFs(config: SessionFsConfig | undefined): void {
  if (!config) return
  if (!config.initialCwd) throw invalidOptions('sessionFs.initialCwd is required')
  if (!config.sessionStatePath) throw invalidOptions('sessionFs.sessionStatePath is required')
  if (config.conventions !== 'windows' && config.conventions !== 'posix') {
    throw invalidOptions("sessionFs.conventions must be either 'windows' or 'posix'")
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
  return options.baseDirectory ?? (env.COPILOT_HOME || join(env.HOME || home() || '/', '.copilot'))
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
