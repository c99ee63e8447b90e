// A client's way to its runtime: started, stopped, lost, and brought back.
import { toJson } from '../json'
import { SheepdogError } from '../error'
import { type ClientSettings, toWireClientInfo } from './client_options'
import { Link, type LinkReceiver } from './link'
import { launchCommand, launchEnvironment } from './runtime_connection'
import { SharedWork, throwIfLeft } from './shared_work'

/** State of the connection to the runtime. */
export type ConnectionState = 'disconnected' | 'connecting' | 'connected' | 'error'

/** The parts of a client that its connection needs. */
export interface ConnectionOwner {
  readonly receiver: LinkReceiver
  /** The connection is there. */
  onConnected(link: Link): void
  /** Before the runtime is told goodbye; resolves with what went wrong. */
  letSessionsGo(): Promise<Error[]>
  /** The connection goes down. */
  closeSessions(): void
  onDisconnected(): void
}

export class ClientConnection {
  readonly #owner: ConnectionOwner
  readonly #settings: ClientSettings
  link: Link | undefined
  state: ConnectionState = 'disconnected'
  runtimePort: number | null
  /** Process id of the runtime, while this client runs it. */
  pid: number | undefined
  #starting: SharedWork<void> | undefined
  #stopping: Promise<Error[]> | undefined
  #forcing: Promise<void> | undefined
  #hasCrashed = false
  /** A start that was wanted before one of them does not begin after it. */
  #stops = 0

  constructor(owner: ConnectionOwner, settings: ClientSettings) {
    this.#owner = owner
    this.#settings = settings
    this.runtimePort = settings.address?.port ?? null
  }

  get mayRestart(): boolean {
    return this.#settings.restart === 'on-demand'
  }

  /** The connection, as it is. */
  connected(): Link {
    if (!this.link || this.state === 'connecting')
      throw new SheepdogError('CONNECTION_LOST', 'Client not connected')
    return this.link
  }

  /** The connection, after bringing it back if that is allowed. */
  async live(): Promise<Link> {
    if (this.#hasCrashed && this.mayRestart) await this.start()
    return this.connected()
  }

  /** The connection, after starting it if that was not done. */
  async ensureStarted(signal?: AbortSignal): Promise<Link> {
    if (this.#stopping || this.#forcing)
      throw new SheepdogError('SESSION_CLOSED', 'The client is being stopped')
    const isMissing = this.link === undefined || this.state === 'connecting'
    if (isMissing || (this.#hasCrashed && this.mayRestart)) await this.start(signal)
    throwIfLeft(signal)
    return this.connected()
  }

  /** Whether this is the connection that there is, and it is whole. */
  isHere(link: Link): boolean {
    return link === this.link && !this.#hasCrashed
  }

  async start(signal?: AbortSignal): Promise<void> {
    throwIfLeft(signal)
    const isEnding = this.#stopping ?? this.#forcing
    if (this.state === 'connected' && !isEnding) return
    if (!this.#starting) {
      let link: Link | undefined
      const work = new SharedWork(
        this.#start((made) => (link = made)),
        () => {
          if (this.#starting === work) this.#starting = undefined
          void link?.kill()
        },
      )
      this.#starting = work
      void work.settled.then(() => {
        if (this.#starting === work) this.#starting = undefined
      })
    }
    await this.#starting.join(signal)
  }

  async #start(onMade: (link: Link) => void): Promise<void> {
    const stops = this.#stops
    await Promise.all([this.#stopping, this.#forcing])
    // A crash may have left a connection behind.
    if (this.link) await this.link.kill()
    if (stops !== this.#stops)
      throw new SheepdogError('SESSION_CLOSED', 'The client was stopped while it was starting')
    this.state = 'connecting'
    this.#hasCrashed = false
    const link = new Link(this.#owner.receiver)
    onMade(link)
    this.link = link
    try {
      const started = await link.start(this.#startSpec())
      this.runtimePort = started.port ?? null
      this.pid = started.pid ?? undefined
      this.state = 'connected'
      this.#owner.onConnected(link)
    } catch (error) {
      if (this.link === link) {
        this.link = undefined
        this.state = stops === this.#stops ? 'error' : 'disconnected'
      }
      throw error
    }
  }

  #startSpec(): Parameters<Link['start']>[0] {
    const settings = this.#settings
    const { connection, address, env, sessionFs } = settings
    const setup: [string, unknown][] = []
    if (settings.extensionLaunchProvider) setup.push(['registerExtensionLaunchProvider', {}])
    if (settings.builtinPluginDirectories?.length) {
      setup.push(['plugins.builtin.set', { paths: [...settings.builtinPluginDirectories] }])
    }
    if (sessionFs) {
      const { initialCwd, sessionStatePath, conventions, capabilities } = sessionFs
      setup.push(['sessionFs.setProvider', { initialCwd, sessionStatePath, conventions, capabilities }])
    }
    if (settings.requestHandler) setup.push(['llmInference.setProvider', {}])
    const handshake = {
      token: settings.connectionToken,
      supportedTaskKinds: ['agent', 'client', 'shell'],
      enableGitHubTelemetryForwarding: settings.onGitHubTelemetry ? true : undefined,
      clientInfo: toWireClientInfo(settings.clientInfo),
    }
    const common = {
      handshake: toJson('handshake', handshake),
      setup: setup.map(([method, params]) => ({ method, params: toJson('params', params) })),
      startTimeoutMs: settings.startTimeoutMs,
      tellStderr: settings.onStderr !== undefined,
    }
    if (connection.kind === 'uri') return { transport: 'address', args: [], env: [], ...address, ...common }
    const variables = Object.entries(launchEnvironment(env, settings))
    return {
      transport: connection.kind,
      ...launchCommand(connection, settings, env),
      cwd: settings.workingDirectory,
      env: variables.flatMap(([name, value]) => (value === undefined ? [] : [{ name, value: `${value}` }])),
      ...common,
    }
  }

  stop(): Promise<Error[]> {
    const starting = this.#cancelStart()
    this.#stopping ??= this.#stop(starting).finally(() => {
      this.#stopping = undefined
    })
    return this.#stopping
  }

  async #stop(starting: SharedWork<void> | undefined): Promise<Error[]> {
    const link = this.link
    const errors = link && this.state === 'connected' ? await this.#owner.letSessionsGo() : []
    this.#owner.closeSessions()
    if (link) errors.push(...(await link.stop().catch((error: Error) => [error])))
    await starting?.settled
    this.#disconnected()
    return errors
  }

  forceStop(): Promise<void> {
    const starting = this.#cancelStart()
    this.#forcing ??= this.#forceStop(starting).finally(() => {
      this.#forcing = undefined
    })
    return this.#forcing
  }

  async #forceStop(starting: SharedWork<void> | undefined): Promise<void> {
    this.#owner.closeSessions()
    await this.link?.kill()
    await starting?.settled
    this.#disconnected()
  }

  /** From now on, a start begins after the stop. */
  #cancelStart(): SharedWork<void> | undefined {
    this.#stops++
    const starting = this.#starting
    this.#starting = undefined
    return starting
  }

  #disconnected(): void {
    this.link = undefined
    this.state = 'disconnected'
    this.#hasCrashed = false
    this.pid = undefined
    this.runtimePort = this.#settings.address?.port ?? null
    this.#owner.onDisconnected()
  }

  /** The runtime exited, or the connection to it broke. */
  onExit(): void {
    this.#hasCrashed = true
    this.state = 'disconnected'
    this.pid = undefined
  }
}
