// A session's files kept by the program instead of on the runtime's disk.
import type {
  SessionFsReaddirWithTypesEntry,
  SessionFsError,
  SessionFsExistsRequest,
  SessionFsExistsResult,
  SessionFsMkdirRequest,
  SessionFsReaddirRequest,
  SessionFsReaddirResult,
  SessionFsReaddirWithTypesRequest,
  SessionFsReaddirWithTypesResult,
  SessionFsReadFileRequest,
  SessionFsReadFileResult,
  SessionFsRenameRequest,
  SessionFsRmRequest,
  SessionFsStatRequest,
  SessionFsSqliteExistsResult,
  SessionFsSqliteQueryRequest,
  SessionFsSqliteTransactionRequest,
  SessionFsSqliteTransactionResult,
  SessionFsAppendFileRequest,
  SessionFsWriteFileRequest,
  SessionFsSqliteQueryResult as WireSqliteQueryResult,
  SessionFsSqliteQueryType,
  SessionFsSqliteTransactionErrorClass,
  SessionFsStatResult,
} from './generated'
import { givenOf } from '../option'

export type { SessionFsSqliteQueryType, SessionFsSqliteTransactionErrorClass }

/** Settings for sessions whose files your program stores. */
export interface SessionFsConfig {
  /** Working directory of a new session. */
  initialCwd: string
  /** Folder for the runtime's own files of a session. */
  sessionStatePath: string
  /** Form of paths. */
  conventions: 'windows' | 'posix'
  /** Abilities of the provider. */
  capabilities?: {
    /** Whether the provider implements `sqlite`. */
    sqlite?: boolean
  }
}

/** Facts about a file. */
export type SessionFsFileInfo = Omit<SessionFsStatResult, 'error'>
/** Result of an SQL query. */
export type SessionFsSqliteQueryResult = Omit<WireSqliteQueryResult, 'error'>
type SqliteParams = Record<string, string | number | null>

/** A statement of a transaction. */
export interface SessionFsSqliteStatement {
  /**
   * Kind of the statement: `"exec"` for several statements, `"query"` for SELECT, `"run"` for changes.
   */
  queryType: SessionFsSqliteQueryType
  /** The statement. */
  query: string
  /** Named parameters. */
  params?: SqliteParams
}

/** SQLite database of a session. */
export interface SessionFsSqliteProvider {
  /** Runs a statement. */
  query(
    queryType: SessionFsSqliteQueryType,
    query: string,
    params?: SqliteParams,
  ): Promise<SessionFsSqliteQueryResult | undefined>
  /**
   * Runs all statements or none. An error that is worth a retry is a
   * `SessionFsSqliteTransactionFailure`.
   */
  transaction?(statements: SessionFsSqliteStatement[]): Promise<SessionFsSqliteQueryResult[]>
  /** Tells whether the database exists, without creating it. */
  exists(): Promise<boolean>
}

/** File operations of a session. An error with `code` `"ENOENT"` means that there is no such file. */
export interface SessionFsProvider {
  /** Reads a file. */
  readFile(path: string): Promise<string>
  /** Writes a file and creates its folders. */
  writeFile(path: string, content: string, mode?: number): Promise<void>
  /** Appends to a file and creates its folders. */
  appendFile(path: string, content: string, mode?: number): Promise<void>
  /** Tells whether a path exists. */
  exists(path: string): Promise<boolean>
  /** Gives facts about a file or folder. */
  stat(path: string): Promise<SessionFsFileInfo>
  /** Creates a folder, with `recursive` its parents too. */
  mkdir(path: string, recursive: boolean, mode?: number): Promise<void>
  /** Lists the names in a folder. */
  readdir(path: string): Promise<string[]>
  /** Lists the entries of a folder with their types. */
  readdirWithTypes(path: string): Promise<SessionFsReaddirWithTypesEntry[]>
  /** Removes a file or folder. With `force` a missing path is no error. */
  rm(path: string, recursive: boolean, force: boolean): Promise<void>
  /** Renames or moves a file or folder. */
  rename(src: string, dest: string): Promise<void>
  /** SQLite database of the session, where the provider supports one. */
  sqlite?: SessionFsSqliteProvider
}

/** A failed transaction. `errorClass` tells the runtime whether to try again. */
export class SessionFsSqliteTransactionFailure extends Error {
  /** Class of the failure. */
  readonly errorClass: SessionFsSqliteTransactionErrorClass

  constructor(message: string, errorClass: SessionFsSqliteTransactionErrorClass = 'fatal') {
    super(message)
    this.name = 'SessionFsSqliteTransactionFailure'
    this.errorClass = errorClass
  }
}

type Params<T> = T & { sessionId?: string }

/** Answers to the runtime's `sessionFs.*` requests. */
export interface SessionFsHandler {
  /** Reads a file. */
  readFile(params: Params<SessionFsReadFileRequest>): Promise<SessionFsReadFileResult>
  /** Writes a file. */
  writeFile(params: Params<SessionFsWriteFileRequest>): Promise<SessionFsError | undefined>
  /** Appends to a file. */
  appendFile(params: Params<SessionFsAppendFileRequest>): Promise<SessionFsError | undefined>
  /** Tells whether a path exists. */
  exists(params: Params<SessionFsExistsRequest>): Promise<SessionFsExistsResult>
  /** Gives facts about a file or folder. */
  stat(params: Params<SessionFsStatRequest>): Promise<SessionFsStatResult>
  /** Creates a folder. */
  mkdir(params: Params<SessionFsMkdirRequest>): Promise<SessionFsError | undefined>
  /** Lists the names in a folder. */
  readdir(params: Params<SessionFsReaddirRequest>): Promise<SessionFsReaddirResult>
  /** Lists the entries of a folder with their types. */
  readdirWithTypes(params: Params<SessionFsReaddirWithTypesRequest>): Promise<SessionFsReaddirWithTypesResult>
  /** Removes a file or folder. */
  rm(params: Params<SessionFsRmRequest>): Promise<SessionFsError | undefined>
  /** Renames or moves a file or folder. */
  rename(params: Params<SessionFsRenameRequest>): Promise<SessionFsError | undefined>
  /** Runs an SQL statement. */
  sqliteQuery(params: Params<SessionFsSqliteQueryRequest>): Promise<WireSqliteQueryResult>
  /** Runs a transaction. */
  sqliteTransaction(
    params: Params<SessionFsSqliteTransactionRequest>,
  ): Promise<SessionFsSqliteTransactionResult>
  /** Tells whether the database exists. */
  sqliteExists(params?: Params<object>): Promise<SessionFsSqliteExistsResult>
}

function fault(error: unknown): SessionFsError {
  const { code, message } = error as { code?: string; message?: string }
  return {
    code: code === 'ENOENT' ? 'ENOENT' : 'UNKNOWN',
    message: message ?? String(error),
  }
}

/** Nothing when it worked, else the fault. */
async function doing(operation: () => Promise<void>): Promise<SessionFsError | undefined> {
  const done = async () => (await operation(), {})
  return (await getting({}, done)).error
}

/** Answer of the operation. When it fails: `instead`, with the fault. */
async function getting<T extends object>(
  instead: T,
  operation: () => Promise<T>,
): Promise<T & { error?: SessionFsError }> {
  try {
    return await operation()
  } catch (error) {
    return { ...instead, error: fault(error) }
  }
}

/** Makes handlers of a provider. Errors become values, and errors of SQL queries reject the request. */
export function createSessionFsAdapter(provider: SessionFsProvider): SessionFsHandler {
  const sqlite = () => {
    if (!provider.sqlite) throw new Error('SQLite is not supported by this provider')
    return provider.sqlite
  }
  return {
    readFile: ({ path }) =>
      getting({ content: '' }, async () => ({ content: await provider.readFile(path) })),
    writeFile: ({ path, content, mode }) => doing(() => provider.writeFile(path, content, mode)),
    appendFile: ({ path, content, mode }) => doing(() => provider.appendFile(path, content, mode)),
    async exists({ path }) {
      const { exists } = await getting({ exists: false }, async () => ({
        exists: await provider.exists(path),
      }))
      return { exists }
    },
    stat({ path }) {
      const now = new Date().toISOString()
      const nothing = { isFile: false, isDirectory: false, size: 0, mtime: now, birthtime: now }
      return getting(nothing, async () => provider.stat(path))
    },
    mkdir: ({ path, recursive, mode }) => doing(() => provider.mkdir(path, recursive ?? false, mode)),
    readdir: ({ path }) =>
      getting({ entries: [] as string[] }, async () => ({ entries: await provider.readdir(path) })),
    readdirWithTypes: ({ path }) =>
      getting({ entries: [] as SessionFsReaddirWithTypesEntry[] }, async () => ({
        entries: await provider.readdirWithTypes(path),
      })),
    rm: ({ path, recursive, force }) => doing(() => provider.rm(path, recursive ?? false, force ?? false)),
    rename: ({ src, dest }) => doing(() => provider.rename(src, dest)),
    sqliteQuery: async ({ queryType, query, params }) =>
      (await sqlite().query(queryType, query, params && givenOf(params as SqliteParams))) ?? {
        rows: [],
        columns: [],
        rowsAffected: 0,
      },
    sqliteTransaction: ({ statements }) => transact(provider.sqlite, statements),
    sqliteExists: async () => ({ exists: await sqlite().exists() }),
  }
}

/** Runs a transaction. Its failure is a value. */
async function transact(
  sqlite: SessionFsSqliteProvider | undefined,
  statements: SessionFsSqliteTransactionRequest['statements'],
): Promise<SessionFsSqliteTransactionResult> {
  const failed = (errorClass: SessionFsSqliteTransactionErrorClass, message: string) => ({
    results: [] as SessionFsSqliteQueryResult[],
    error: { errorClass, message },
  })
  const transaction = sqlite?.transaction?.bind(sqlite)
  if (!transaction) return failed('fatal', 'SQLite transactions are not supported by this provider')
  try {
    const prepared = statements.map((one) => ({
      ...one,
      params: one.params && givenOf(one.params as SqliteParams),
    }))
    return { results: (await transaction(prepared)).map((result) => ({ ...result })) }
  } catch (error) {
    const isKnown = error instanceof SessionFsSqliteTransactionFailure
    return failed(
      isKnown ? error.errorClass : 'fatal',
      error instanceof Error ? error.message : String(error),
    )
  }
}
