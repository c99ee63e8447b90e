// The upload address of a client's own: a server that writes what the runtime uploads below one folder.
import type { FileHandle } from 'node:fs/promises'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { isIPv6 } from 'node:net'
import { dirname, join, relative, sep } from 'node:path'
import { invalidOption } from '../error'
import { absolutePath, pause } from '../host'
import { check, checkOptions, optionsOf, show, type Checks } from '../option'
import { boundStrangers, listen } from '../strangers'

/** Options of `client.receive`. */
export interface ReceiveOptions {
  /** Folder for the files. It is created when it does not exist. */
  folder: string
  /**
   * Address of this machine to listen on, and to give to the runtime. A runtime on another machine needs one that it can
   * reach.
   *
   * @default "127.0.0.1"
   * @throws INVALID_OPTION for an address that is not this machine's.
   */
  host?: string
  /**
   * Port to listen on; 0 picks a free one.
   *
   * @default 0
   */
  port?: number
  /**
   * Address under which the runtime reaches `host` and `port`, where it is another one: from inside a container, or through
   * a proxy.
   *
   * @default `http://` with `host` and `port`
   */
  url?: string
  /**
   * Largest size of all files together, in bytes. A file beyond it is not received, and `undelivered` names it.
   *
   * @default 10_737_418_240 (10 GiB)
   */
  maxBytes?: number
}

/** The upload address of a client. */
export interface Receiver {
  /** Address that the runtime sends files to; each file has a path of its own below it. */
  readonly url: string
  /** Absolute path of the folder. */
  readonly folder: string
}

const checks = optionsOf('client.receive()', {
  folder: check.name,
  host: check.name,
  port: check.port,
  url(path: string, value: unknown) {
    check.name(path, value)
    if (!URL.canParse(value as string) || !/^https?:$/.test(new URL(value as string).protocol))
      throw invalidOption(path, `expected an http:// or https:// URL, got ${show(value)}`)
  },
  maxBytes: check.count,
} satisfies Checks<ReceiveOptions>)

const defaultMaxBytes = 10 * 1024 ** 3
/** How long files that are on their way have at the end. */
const lastFilesMs = 5_000

// Loaded when a client receives files.
const http = () => process.getBuiltinModule('node:http')
const files = () => process.getBuiltinModule('node:fs/promises')
const random = (bytes: number) =>
  process.getBuiltinModule('node:crypto').randomBytes(bytes).toString('base64url')

/** A refused upload, by its status and its text. */
class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message)
  }
}

export class FileReceiver implements Receiver {
  readonly url: string
  readonly folder: string
  readonly #server: Server
  readonly #maxBytes: number
  readonly #onKnown: (socket: Socket) => void
  /** Size of each file that arrived, and of what arrived so far of others. */
  readonly #bytes = new Map<string, number>()
  /** Sum of these sizes. */
  #total = 0
  /** Paths below the folder, by the secret part of their address. */
  readonly #paths = new Map<string, string>()

  static async start(options: ReceiveOptions): Promise<FileReceiver> {
    checkOptions(options, checks)
    if (options?.folder === undefined) throw invalidOption('folder', 'is missing')
    const { host = '127.0.0.1', port = 0, url, maxBytes = defaultMaxBytes } = options
    if (url === undefined && /^(0\.0\.0\.0|::|\[::\])$/.test(host))
      throw invalidOption(
        'url',
        `is missing: ${host} is every address of this machine, so say which one the runtime reaches`,
      )
    const folder = absolutePath(options.folder)
    await files()
      .mkdir(folder, { recursive: true })
      .catch((error: Error) => {
        throw invalidOption('folder', error.message)
      })
    const server = http().createServer()
    const listening = listen(server, port, host.replace(/^\[|\]$/g, ''))
    const { address, port: chosen } = await listening.catch((error: Error) => {
      throw invalidOption('host', error.message)
    })
    server.unref()
    const own = `http://${isIPv6(address) ? `[${address}]` : address}:${chosen}`
    return new FileReceiver(server, (url ?? own).replace(/\/$/, ''), await files().realpath(folder), maxBytes)
  }

  private constructor(server: Server, url: string, folder: string, maxBytes: number) {
    this.#server = server
    this.url = url
    this.folder = folder
    this.#maxBytes = maxBytes
    this.#onKnown = boundStrangers(server)
    // A large file takes as long as it takes.
    server.requestTimeout = 0
    server.on('request', (request, response) => void this.#serve(request, response))
  }

  /** The address for a file of the runtime, which nobody can guess. */
  target(filepath: string): { presignedUrl: string; contentType: string } {
    const path = below(filepath)
    const secret = random(24)
    this.#paths.set(secret, path)
    return { presignedUrl: `${this.url}/${secret}`, contentType: 'application/octet-stream' }
  }

  /** Waits a moment for files that are on their way, then ends their connections. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()))
    this.#server.closeIdleConnections()
    await Promise.race([closed, pause(lastFilesMs)])
    this.#server.closeAllConnections()
    await closed
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const answer = (status: number, text = '') => {
      if (status !== 200) response.shouldKeepAlive = false
      response.writeHead(status, { 'content-type': 'text/plain' })
      response.end(text)
    }
    try {
      const path = this.#paths.get(request.url?.split('/').pop() ?? '')
      if (path === undefined) throw new Refusal(404, 'no file is expected at this address')
      this.#onKnown(request.socket)
      if (request.method !== 'PUT') throw new Refusal(405, 'files are sent with PUT')
      await this.#write(path, request)
      answer(200)
    } catch (error) {
      answer(error instanceof Refusal ? error.status : 500, (error as Error).message)
    }
  }

  /** The file is complete under its name, or what was there before is. */
  async #write(path: string, request: IncomingMessage): Promise<void> {
    const to = await this.#place(path)
    const partial = join(dirname(to), `.${random(9)}.part`)
    // A file of its own: a link of this name is not followed.
    const file = await files().open(partial, 'wx', 0o666)
    try {
      await this.#copy(path, request, file)
      await file.close()
      await files().rename(partial, to)
    } catch (error) {
      await file.close().catch(() => {})
      await files().rm(partial, { force: true })
      this.#forget(path)
      throw error
    }
  }

  async #copy(path: string, request: IncomingMessage, file: FileHandle): Promise<void> {
    this.#forget(path)
    for await (const chunk of request as AsyncIterable<Buffer>) {
      this.#bytes.set(path, (this.#bytes.get(path) ?? 0) + chunk.length)
      this.#total += chunk.length
      if (this.#total > this.#maxBytes)
        throw new Refusal(413, `the files are larger than maxBytes, ${this.#maxBytes} bytes`)
      await file.writeFile(chunk)
    }
    if (!request.complete) throw new Error('the connection ended before the file did')
  }

  /** A file that is sent again, or did not arrive, no longer counts. */
  #forget(path: string): void {
    this.#total -= this.#bytes.get(path) ?? 0
    this.#bytes.delete(path)
  }

  /** Makes the folder of the file. A link in its path may not lead outside. */
  async #place(path: string): Promise<string> {
    let folder = this.folder
    const names = path.split('/')
    const name = names.pop()!
    for (const one of names) {
      folder = join(folder, one)
      await files()
        .mkdir(folder)
        .catch((error: NodeJS.ErrnoException) => {
          if (error.code !== 'EEXIST') throw error
        })
      const real = await files().realpath(folder)
      if (relative(this.folder, real).split(sep)[0] === '..')
        throw new Refusal(403, `${path}: a link leads outside of the folder`)
    }
    return join(folder, name)
  }
}

/** The path below the folder. One that climbs has no place there. */
function below(filepath: string): string {
  const names = filepath.split(/[/\\]/).filter((name) => name !== '' && name !== '.')
  if (names.length === 0 || names.includes('..') || filepath.includes('\0'))
    throw new Error(`${show(filepath)} has no place below the folder`)
  // A drive of Windows is a folder like others.
  return names.map((name) => name.replace(/:$/, '')).join('/')
}
