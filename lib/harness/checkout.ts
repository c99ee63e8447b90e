// A turn in a checkout of its own, or in a folder whose changes are looked at: what is before its start and behind its end.
import type { NativeTurn } from '../../native/native'
import { callSite } from '../call-site'
import { invalidOption, settle, SheepdogError } from '../error'
import { absolutePath } from '../host'
import { native } from '../native'
import { check, checkOptions, type Checks } from '../option'
import { run, type RunResult } from '../process'
import { folderPath } from '../process/request'
import type { SandboxOptions } from '../sandbox'
import { Changes } from './changes'
import type { HarnessOptions, TurnOptions } from './request'
import type { TurnResult } from './result'

/** How a checkout is made, and what becomes of it. */
export interface WorktreeOptions {
  /**
   * A commit, branch or tag to begin with.
   *
   * @default HEAD with the uncommitted and the untracked files of `cwd`; ignored files are not taken
   */
  base?: string
  /**
   * Ignored files that are copied into the checkout, as globs below the top of the repository: `".env"`.
   *
   * @default []
   */
  include?: readonly string[]
  /**
   * A command that runs in the checkout before the agent, under the same sandbox. Each run of it has the clocks `timeoutMs` and
   * `toolIdleTimeoutMs` of the turn.
   *
   * @default none
   * @throws WORKTREE_FAILED with `step: "setup"` when it fails; the agent is not started.
   */
  setup?: readonly [string, ...string[]]
  /**
   * Whether the checkout stays for you to look at. `changes.worktree` names its folder, and `changes.discard()` removes it.
   *
   * @default "never"
   */
  keep?: 'never' | 'failure' | 'always'
  /**
   * The folder in which the checkout is made.
   *
   * @default a folder in this user's caches
   */
  dir?: string
}

/** A program and its arguments. */
export function checkCommand(path: string, value: unknown): void {
  check.strings(path, value)
  if (!(value as string[])[0])
    throw invalidOption(path, 'expected a program and its arguments, got an empty array')
}

const worktreeChecks = {
  base: check.name,
  include: check.names,
  setup: checkCommand,
  keep: check.oneOf('never', 'failure', 'always'),
  dir: check.name,
} satisfies Checks<WorktreeOptions>

export function checkWorktree(path: string, value: unknown): void {
  if (typeof value !== 'boolean') checkOptions(value, worktreeChecks, path)
}

/** Refuses what would have no effect there. */
export function checkNoCheckout({ changes, worktree }: Pick<TurnOptions, 'changes' | 'worktree'>): void {
  const path = worktree ? 'worktree' : changes ? 'changes' : undefined
  if (path) throw invalidOption(path, 'belongs to a turn, a session or a race: it has no effect here')
}

/** A new checkout is another folder than that of any earlier session. */
function checkResume({ resume, worktree }: CheckoutOptions): void {
  if (resume !== undefined && worktree)
    throw invalidOption(
      'resume',
      'a session continues in its own folder: leave `worktree` out, or keep a checkout and give it as `cwd`',
    )
}

/** Runs a command where the agent worked. */
export type RunThere = (command: readonly string[], signal: AbortSignal) => Promise<RunResult>

/** @internal A race, as the checkout of an entry knows it. */
export interface Judge {
  /** Looks at what an agent left, before its checkout is removed. Never rejects. */
  judge(runThere: RunThere): Promise<void>
  /** The changes belong to the race until it calls `release`: if its host is killed before, they are removed with the rest. */
  hold(release: () => Promise<unknown>): void
}

interface Place {
  cwd: string
  top: string
  borrowed: string
  removed: string[]
}

type CheckoutOptions = Pick<
  HarnessOptions,
  | 'cwd'
  | 'env'
  | 'inheritEnv'
  | 'sandbox'
  | 'killGraceMs'
  | 'containment'
  | 'timeoutMs'
  | 'toolIdleTimeoutMs'
  | 'resume'
  | 'changes'
  | 'worktree'
> & { name?: string }

/** The options that are others in a checkout. */
export type There = Pick<CheckoutOptions, 'cwd' | 'env' | 'sandbox'>

/** A turn or a session that has its slot, and waits for its folder. */
interface Waiting {
  granted(): ReturnType<NativeTurn['granted']>
  abort(): void
}

interface Read {
  changes: ConstructorParameters<typeof Changes>[0]
  warnings: string[]
}

/** A checkout, or a folder whose changes are looked at: made before the start of a turn or session, read and left behind its end. */
export class Checkout {
  readonly #worktree: WorktreeOptions | undefined
  readonly #native: InstanceType<typeof native.NativeCheckout>
  #place: Place | null = null
  /** Reads of the changes, one after the other. */
  #reading: Promise<unknown> = Promise.resolve()
  #end: Promise<Changes> | undefined

  /** `undefined` where neither option asks for it. */
  static of(options: CheckoutOptions): Checkout | undefined {
    checkResume(options)
    return options.changes || options.worktree ? new Checkout(options) : undefined
  }

  private constructor(private readonly options: CheckoutOptions) {
    const { cwd, name, worktree } = options
    this.#worktree = worktree === true ? {} : worktree || undefined
    const { base, include, dir } = this.#worktree ?? {}
    this.#native = new native.NativeCheckout({
      cwd: absolutePath(folderPath(cwd) ?? '.'),
      inPlace: this.#worktree === undefined,
      base,
      include: include && [...include],
      dir: dir === undefined ? undefined : absolutePath(dir),
      name,
    })
  }

  /** Makes the checkout once the agent has its slot, and lets the agent go on there. `ended` settles when nothing of it lives. */
  async begin(agent: Waiting, ended: Promise<unknown>, go: (there: There) => void): Promise<void> {
    const over = new AbortController()
    const end = () => over.abort()
    void ended.then(end, end)
    if (!(await settle<boolean>(agent.granted()))) return
    try {
      await this.#prepare(over.signal)
      over.signal.throwIfAborted()
      go(this.#there())
    } catch (error) {
      const wasAborted = over.signal.aborted
      agent.abort()
      await ended.catch(() => {})
      await this.#leave(this.#worktree?.keep === 'always')
      if (!wasAborted) throw error
    }
  }

  async #prepare(signal: AbortSignal): Promise<void> {
    const place = JSON.parse(await settle<string>(this.#native.prepare(), callSite())) as Place | null
    this.#place = place
    const setup = this.#worktree?.setup
    if (!place || !setup || signal.aborted) return
    try {
      await this.#runThere(setup, signal, true)
    } catch (error) {
      const said = (error as Error).message.replace('`error.result`', '`error.cause.result`')
      throw new SheepdogError(
        'WORKTREE_FAILED',
        `the setup of the checkout failed: ${said}`,
        { step: 'setup' },
        error,
      )
    }
  }

  #runThere(command: readonly string[], signal: AbortSignal, reject = false): Promise<RunResult> {
    const { inheritEnv, killGraceMs, containment, timeoutMs, toolIdleTimeoutMs = 900_000 } = this.options
    const { cwd, env, sandbox } = this.#there()
    const [program, ...args] = command as [string, ...string[]]
    return run(program, args, {
      cwd,
      env,
      sandbox: ofAProgram(sandbox),
      inheritEnv,
      killGraceMs,
      containment,
      timeoutMs,
      idleTimeoutMs: toolIdleTimeoutMs,
      signal,
      reject,
    })
  }

  /** Variables that point git at another repository are not inherited. */
  #there(): There {
    const { cwd, env, sandbox } = this.options
    const place = this.#place
    if (!place || !this.#worktree) return { cwd, env, sandbox }
    const unset = Object.fromEntries(place.removed.map((name) => [name, undefined]))
    return { cwd: place.cwd, env: { ...unset, ...env }, sandbox: widened(sandbox, place) }
  }

  /** The result of a turn that waits for its folder, with its changes. */
  async turn(
    agent: Waiting,
    ended: Promise<TurnResult>,
    go: (there: There) => void,
    judge?: Judge,
  ): Promise<TurnResult> {
    await this.begin(agent, ended, go)
    let result: TurnResult
    try {
      result = await ended
    } catch (error) {
      if (this.#place) await this.#failed(error as { result?: TurnResult }, judge)
      throw error
    }
    if (!this.#place) return result
    try {
      const read = await this.#read()
      await judge?.judge((command, signal) => this.#runThere(command, signal))
      const changes = toChanges(read, await this.#hand(this.#worktree?.keep === 'always', judge))
      return { ...result, warnings: [...result.warnings, ...read.warnings], changes }
    } catch (error) {
      // The checkout holds the only copy of what the agent did.
      await this.#leave(true)
      ;(error as { result?: TurnResult }).result = result
      throw error
    }
  }

  async #failed(error: { result?: TurnResult }, judge?: Judge): Promise<void> {
    try {
      const read = await this.#read()
      const changes = toChanges(read, await this.#hand(this.#keepsFailed, judge))
      if (!error.result) return await changes.discard()
      error.result.changes = changes
      error.result.warnings = [...error.result.warnings, ...read.warnings]
    } catch (unread) {
      // Nothing of a loser survives.
      await this.#leave(judge === undefined)
      if (error.result) error.result.warnings = [...error.result.warnings, (unread as Error).message]
    }
  }

  get #keepsFailed(): boolean {
    const keep = this.#worktree?.keep
    return keep === 'always' || keep === 'failure'
  }

  /** The changes of a session: so far, or those at its end. */
  async changes(): Promise<Changes> {
    if (this.#end) return this.#end
    if (!this.#place)
      throw invalidOption(
        'changes',
        'the folder of this session is in no git repository, so its changes are not known',
      )
    return toChanges(await this.#read())
  }

  /** Reads the changes of a session and leaves its checkout. Never rejects; `changes()` then does. */
  async end(hasFailed: boolean): Promise<void> {
    if (!this.#place || this.#end) return
    this.#end = this.#read().then(
      async (read) =>
        toChanges(read, await this.#leave(hasFailed ? this.#keepsFailed : this.#worktree?.keep === 'always')),
      async (error: unknown) => {
        await this.#leave(true)
        throw error
      },
    )
    await this.#end.catch(() => {})
  }

  /** Gives up a session that could not be opened. */
  async giveUp(): Promise<void> {
    await this.#leave(this.#keepsFailed)
  }

  async #read(): Promise<Read> {
    const read = this.#reading.then(() => settle<string>(this.#native.changes(), callSite()))
    this.#reading = read.catch(() => {})
    return JSON.parse(await read) as Read
  }

  /** Leaves a checkout whose changes came home: now, or when the race is over. */
  async #hand(keeps: boolean, judge: Judge | undefined): Promise<string | undefined> {
    if (keeps || !judge) return this.#leave(keeps)
    await settle(this.#native.clear(), callSite())
    judge.hold(() => this.#leave(false))
    return undefined
  }

  async #leave(keeps: boolean): Promise<string | undefined> {
    this.#place = null
    const kept = await settle<string>(this.#native.leave(keeps), callSite())
    return (JSON.parse(kept) as string | null) ?? undefined
  }
}

function toChanges({ changes, warnings }: Read, kept?: string): Changes {
  return new Changes(changes, warnings, kept)
}

/** The checkout can be written, and the objects that it borrows can be read. */
function widened(sandbox: HarnessOptions['sandbox'], { top, borrowed }: Place): HarnessOptions['sandbox'] {
  if (typeof sandbox !== 'object') return sandbox
  const { write, read } = sandbox
  return {
    ...sandbox,
    ...(write && { write: [...write, top] }),
    ...(read && { read: [...read, top, borrowed] }),
  }
}

/** A program has no hosts of a provider. */
function ofAProgram(sandbox: HarnessOptions['sandbox']): HarnessOptions['sandbox'] {
  if (typeof sandbox !== 'object' || typeof sandbox.network !== 'object' || !('hosts' in sandbox.network))
    return sandbox
  const { hosts, ...rest } = sandbox.network
  const named = hosts === 'provider' ? [] : hosts?.filter((host) => host !== 'provider')
  return { ...sandbox, network: { ...rest, hosts: named } } as SandboxOptions
}
