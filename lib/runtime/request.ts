// Requests to a runtime and their results: types and their checks.
import { invalidOption } from '../error'
import { check, checkOptions, checkVariableName, optionsOf } from '../option'

/** A command for a shell. */
export interface RuntimeCommand {
  /** The command, for example `"npm ci"`. */
  command: string
  /** Working directory in the runtime. It is created when it does not exist. */
  cwd?: string
  /** Environment variables of the command. */
  env?: Record<string, string>
}

/** Options of a request to a runtime. */
export interface ExecuteOptions {
  /**
   * Texts that the runtime removes from everything that it sends.
   *
   * @default []
   */
  secrets?: readonly string[]
  /**
   * Directories in the runtime whose finished files are uploaded. `onArtifactUploadRequest` gives an
   * address for each file.
   *
   * @default []
   */
  artifactsDirs?: readonly string[]
  /**
   * Rules in gitignore syntax for files that are not uploaded. They override the `.artifactignore`
   * files in the directories.
   */
  artifactsIgnore?: string
  /**
   * Files that the runtime downloads before anything runs. A `.zip` file is unpacked.
   *
   * @default []
   */
  downloads?: {
    /** Address of the file. */
    downloadUrl: string
    /** Directory in the runtime for the file. */
    workingDir: string
  }[]
  /**
   * Called for each message of the agent. An error, thrown or as a rejected promise, stops the request
   * and rejects it.
   *
   * Return a promise to slow the runtime down: no more is read while promises for more than 1 MiB of
   * text are pending. The result of the request does not wait for them.
   */
  onAssistantMessage?(textBlocks: string[]): unknown
  /**
   * Called for each piece of a command's output. Errors and promises have the same effect as with
   * `onAssistantMessage`.
   */
  onCommandOutput?(output: { stream: 'stdout' | 'stderr'; text: string; command: string }): unknown
  /**
   * Gives the address to upload a file to. It may also be called after the request, until the session
   * has ended.
   */
  onArtifactUploadRequest?(artifact: {
    filename: string
    filepath: string
  }): UploadTarget | Promise<UploadTarget>
  /**
   * Called with the outcome of each upload. It may also be called after the request, until the session
   * has ended. An error while the request runs stops the request. Other implementations of the runtime
   * do not report uploads.
   */
  onArtifactUploaded?(artifact: ArtifactUpload): void
  /**
   * Longest time of the whole request, in milliseconds.
   *
   * @default no limit
   * @throws RUNTIME_TIMED_OUT
   */
  timeoutMs?: number
  /**
   * Longest time without a message from the runtime, in milliseconds.
   *
   * @default no limit
   * @throws RUNTIME_IDLE
   */
  idleTimeoutMs?: number
  /**
   * Cancels the request in the runtime when aborted.
   *
   * @throws RUNTIME_ABORTED
   */
  signal?: AbortSignal
}

/** Destination of an upload. */
export interface UploadTarget {
  /** Address that the file is PUT to. */
  presignedUrl: string
  /** Content type that is sent with the file. */
  contentType: string
}

/** Outcome of an upload. */
export interface ArtifactUpload {
  /**
   * Path of the file: the directory as it was given, and the path below it. Same as `filepath` of the
   * upload request.
   */
  path: string
  /** Whether the file arrived. */
  status: 'uploaded' | 'failed'
  /** Size of the file as it was sent. */
  bytes?: number
  /** SHA-256 digest of the file as it was sent, in hexadecimal. */
  sha256?: string
  /** Number of attempts. */
  attempts: number
  /** Reason of a failure. */
  reason?: string
}

/** Options of a prompt. */
export interface QueryOptions extends ExecuteOptions {
  /**
   * Instructions for the agent.
   *
   * @default none
   */
  systemPrompt?: string
  /**
   * Model for the agent.
   *
   * @default the runtime chooses
   */
  model?: string
  /**
   * JSON Schema that the answer must match.
   *
   * @default none: the answer is a text
   */
  outputSchema?: object
  /** Environment variables of the agent. */
  agentEnv?: Record<string, string>
  /**
   * Commands that run before the agent.
   *
   * @default []
   */
  preCommands?: readonly RuntimeCommand[]
  /**
   * Commands that run after the agent.
   *
   * @default []
   */
  postCommands?: readonly RuntimeCommand[]
}

/** Result of a prompt. */
export interface QueryResult {
  /** The answer: a text, or a JSON object. */
  data:
    { type: 'text'; text: string } | { type: 'structured_output'; structuredOutput: Record<string, unknown> }
  /** Facts that the runtime adds, for example `session_id` and `usage`. */
  metadata: Record<string, unknown>
}

/** Result of `executeCommands`. */
export interface ExecuteResult {
  /** Results of the commands that ran. After a command that failed no further command runs. */
  results: {
    /** The command. */
    command: string
    /** Exit status; -1 when a signal ended the command. */
    exitCode: number
    /** Name of that signal. Other implementations of the runtime do not report it. */
    signal?: string
    /** Standard output. */
    stdout?: string
    /** True when `stdout` holds only the beginning and the end. */
    truncated?: boolean
  }[]
}

/** How a session with a runtime ended. */
export interface SessionEndResult {
  /** True when the runtime confirmed the end; false when the connection was lost before. */
  confirmed: boolean
  /** Number of files that were uploaded. */
  uploaded: number
  /** Files that were not uploaded. */
  undelivered: {
    /** Path of the file. */
    path: string
    /** Reason of the failure. */
    reason: string
  }[]
}

const variables = (path: string, value: unknown): void => {
  check.record(path, value)
  for (const [name, text] of Object.entries(value as object)) {
    checkVariableName(path, name)
    check.string(`${path}.${name}`, text)
  }
}

const commandChecks = { command: check.name, cwd: check.name, env: variables }

/** @internal */
export const commands = check.listOf((path, command) => {
  if (command === undefined || command === null) throw invalidOption(path, 'expected a command')
  checkOptions(command, commandChecks, path)
  check.name(`${path}.command`, (command as RuntimeCommand).command)
}, 'an array of commands')

/** @internal */
export const executeChecks = {
  secrets: check.strings,
  artifactsDirs: check.strings,
  artifactsIgnore: check.string,
  downloads: check.listOf((path, download) => {
    check.object(path, download)
    const { downloadUrl, workingDir } = download as { downloadUrl?: unknown; workingDir?: unknown }
    check.name(`${path}.downloadUrl`, downloadUrl)
    check.name(`${path}.workingDir`, workingDir)
  }, 'an array of downloads'),
  onAssistantMessage: check.function,
  onCommandOutput: check.function,
  onArtifactUploadRequest: check.function,
  onArtifactUploaded: check.function,
  timeoutMs: check.timeout,
  idleTimeoutMs: check.timeout,
  signal: check.signal,
}

/** @internal */
export const queryChecks = optionsOf('client.query()', {
  ...executeChecks,
  systemPrompt: check.string,
  model: check.string,
  outputSchema: check.object,
  agentEnv: variables,
  preCommands: commands,
  postCommands: commands,
})
