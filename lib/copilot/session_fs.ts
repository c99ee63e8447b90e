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

export type { SessionFsSqliteQueryType, SessionFsSqliteTransactionErrorClass }

/** Client option: where the sessions' paths begin. */
export interface SessionFsConfig {
  initialCwd: string
  sessionStatePath: string
  conventions: 'windows' | 'posix'
  capabilities?: { sqlite?: boolean }
}

export type SessionFsFileInfo = Omit<SessionFsStatResult, 'error'>
export type SessionFsSqliteQueryResult = Omit<WireSqliteQueryResult, 'error'>
type SqliteParams = Record<string, string | number | null>

export interface SessionFsSqliteStatement {
  queryType: SessionFsSqliteQueryType
  query: string
  params?: SqliteParams
}

export interface SessionFsSqliteProvider {
  query(
    queryType: SessionFsSqliteQueryType,
    query: string,
    params?: SqliteParams,
  ): Promise<SessionFsSqliteQueryResult | undefined>
  /** All or nothing; a fault that is worth a retry is a `SessionFsSqliteTransactionFailure`. */
  transaction?(statements: SessionFsSqliteStatement[]): Promise<SessionFsSqliteQueryResult[]>
  exists(): Promise<boolean>
}

/** File operations; an error whose `code` is "ENOENT" says that there is no such file. */
export interface SessionFsProvider {
  readFile(path: string): Promise<string>
  writeFile(path: string, content: string, mode?: number): Promise<void>
  appendFile(path: string, content: string, mode?: number): Promise<void>
  exists(path: string): Promise<boolean>
  stat(path: string): Promise<SessionFsFileInfo>
  mkdir(path: string, recursive: boolean, mode?: number): Promise<void>
  readdir(path: string): Promise<string[]>
  readdirWithTypes(path: string): Promise<SessionFsReaddirWithTypesEntry[]>
  rm(path: string, recursive: boolean, force: boolean): Promise<void>
  rename(src: string, dest: string): Promise<void>
  sqlite?: SessionFsSqliteProvider
}

/** Why a transaction failed, for the runtime to know whether to try again. */
export class SessionFsSqliteTransactionFailure extends Error {
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
  readFile(params: Params<SessionFsReadFileRequest>): Promise<SessionFsReadFileResult>
  writeFile(params: Params<SessionFsWriteFileRequest>): Promise<SessionFsError | undefined>
  appendFile(params: Params<SessionFsAppendFileRequest>): Promise<SessionFsError | undefined>
  exists(params: Params<SessionFsExistsRequest>): Promise<SessionFsExistsResult>
  stat(params: Params<SessionFsStatRequest>): Promise<SessionFsStatResult>
  mkdir(params: Params<SessionFsMkdirRequest>): Promise<SessionFsError | undefined>
  readdir(params: Params<SessionFsReaddirRequest>): Promise<SessionFsReaddirResult>
  readdirWithTypes(params: Params<SessionFsReaddirWithTypesRequest>): Promise<SessionFsReaddirWithTypesResult>
  rm(params: Params<SessionFsRmRequest>): Promise<SessionFsError | undefined>
  rename(params: Params<SessionFsRenameRequest>): Promise<SessionFsError | undefined>
  sqliteQuery(params: Params<SessionFsSqliteQueryRequest>): Promise<WireSqliteQueryResult>
  sqliteTransaction(
    params: Params<SessionFsSqliteTransactionRequest>,
  ): Promise<SessionFsSqliteTransactionResult>
  sqliteExists(params?: Params<object>): Promise<SessionFsSqliteExistsResult>
}

/** Turns a provider into handlers: its errors become values, those of SQL queries the request's errors. */
export function createSessionFsAdapter(provider: SessionFsProvider): SessionFsHandler {
  const fault = (error: unknown) => {
    const { code, message } = error as { code?: string; message?: string }
    return {
      code: code === 'ENOENT' ? ('ENOENT' as const) : ('UNKNOWN' as const),
      message: message ?? String(error),
    }
  }
  /** Nothing when it worked, else the fault. */
  const doing = async (operation: () => Promise<void>) => {
    try {
      await operation()
      return undefined
    } catch (error) {
      return fault(error)
    }
  }
  const getting = async <T, F>(
    operation: () => Promise<T>,
    failed: (error: ReturnType<typeof fault>) => F,
  ) => {
    try {
      return await operation()
    } catch (error) {
      return failed(fault(error))
    }
  }
  const sqlite = () => {
    if (!provider.sqlite) throw new Error('SQLite is not supported by this provider')
    return provider.sqlite
  }
  return {
    readFile: ({ path }) =>
      getting(
        async () => ({ content: await provider.readFile(path) }),
        (error) => ({ content: '', error }),
      ),
    writeFile: ({ path, content, mode }) => doing(() => provider.writeFile(path, content, mode)),
    appendFile: ({ path, content, mode }) => doing(() => provider.appendFile(path, content, mode)),
    exists: ({ path }) =>
      getting(
        async () => ({ exists: await provider.exists(path) }),
        () => ({ exists: false }),
      ),
    stat: ({ path }) =>
      getting(
        async () => provider.stat(path),
        (error) => {
          const now = new Date().toISOString()
          return { isFile: false, isDirectory: false, size: 0, mtime: now, birthtime: now, error }
        },
      ),
    mkdir: ({ path, recursive, mode }) => doing(() => provider.mkdir(path, recursive ?? false, mode)),
    readdir: ({ path }) =>
      getting(
        async () => ({ entries: await provider.readdir(path) }),
        (error) => ({ entries: [] as string[], error }),
      ),
    readdirWithTypes: ({ path }) =>
      getting(
        async () => ({ entries: await provider.readdirWithTypes(path) }),
        (error) => ({ entries: [] as SessionFsReaddirWithTypesEntry[], error }),
      ),
    rm: ({ path, recursive, force }) => doing(() => provider.rm(path, recursive ?? false, force ?? false)),
    rename: ({ src, dest }) => doing(() => provider.rename(src, dest)),
    sqliteQuery: async ({ queryType, query, params }) =>
      (await sqlite().query(queryType, query, definedOnly(params as SqliteParams))) ?? {
        rows: [],
        columns: [],
        rowsAffected: 0,
      },
    sqliteTransaction: async ({ statements }) => {
      const failed = (errorClass: SessionFsSqliteTransactionErrorClass, message: string) => ({
        results: [] as SessionFsSqliteQueryResult[],
        error: { errorClass, message },
      })
      const transaction = provider.sqlite?.transaction?.bind(provider.sqlite)
      if (!transaction) return failed('fatal', 'SQLite transactions are not supported by this provider')
      try {
        const prepared = statements.map((one) => ({
          ...one,
          params: definedOnly(one.params as SqliteParams),
        }))
        return { results: (await transaction(prepared)).map((result) => ({ ...result })) }
      } catch (error) {
        const isKnown = error instanceof SessionFsSqliteTransactionFailure
        return failed(
          isKnown ? error.errorClass : 'fatal',
          error instanceof Error ? error.message : String(error),
        )
      }
    },
    sqliteExists: async () => ({ exists: await sqlite().exists() }),
  }
}

function definedOnly(params: SqliteParams | undefined): SqliteParams | undefined {
  return params && Object.fromEntries(Object.entries(params).filter(([, value]) => value !== undefined))
}
