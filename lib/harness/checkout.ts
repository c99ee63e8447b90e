// A turn in a checkout of its own, or in a folder whose changes are looked at: what is before its start and behind its end.
import type { NativeTurn } from '../../native/native'
import { callSite } from '../call-site'
import { invalidOption, settle, SheepdogError } from '../error'
import { absolutePath } from '../host'
import { native } from '../native'
import { check, checkOptions, type Checks } from '../option'
import { folderPath, run, type RunResult } from '../process'
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
  if (path) throw invalidOption(path, 'belongs to a turn: use `harness.run()`, `harness.start()` or `race()`')
}

/** A new checkout is another folder than that of any earlier session. */
export function checkResume({ resume, worktree }: TurnOptions): void {
  if (resume !== undefined && worktree)
    throw invalidOption(
      'resume',
      'a session continues in its own folder: leave `worktree` out, or keep a checkout and give it as `cwd`',
    )
}

/** Runs a command where the agent worked. */
export type RunThere = (command: readonly string[]) => Promise<RunResult>

/** @internal Looks at what an agent left, before its checkout is removed. Never rejects. */
export type Judge = (runThere: RunThere) => Promise<void>

interface Place {
  cwd: string
  top: string
  borrowed: string
  removed: string[]
}

interface Request {
  options: HarnessOptions
  /** Starts the turn with these options in the place of its own. */
  start(options: Partial<HarnessOptions>): NativeTurn
  /** The error of a turn that was aborted before its start. */
  aborted(): Error
  judge?: Judge
}

/** A turn that starts when its checkout is there. */
export class CheckoutTurn {
  readonly #request: Request
  readonly #worktree: WorktreeOptions | undefined
  readonly #checkout: InstanceType<typeof native.NativeCheckout>
  readonly #stopped = new AbortController()
  #native: NativeTurn | undefined
  #begin!: (turn: NativeTurn | undefined) => void
  /** The turn once it has started; `undefined` when it never does. */
  readonly started = new Promise<NativeTurn | undefined>((resolve) => (this.#begin = resolve))

  constructor(request: Request) {
    this.#request = request
    const { cwd, name, worktree } = request.options
    this.#worktree = worktree === true ? {} : worktree || undefined
    const { base, include, dir } = this.#worktree ?? {}
    this.#checkout = new native.NativeCheckout({
      cwd: absolutePath(folderPath(cwd) ?? '.'),
      inPlace: this.#worktree === undefined,
      base,
      include: include && [...include],
      dir: dir === undefined ? undefined : absolutePath(dir),
      name,
    })
  }

  abort(): void {
    this.#stopped.abort()
    this.#native?.abort()
  }

  /** `outcome`: waits for the end of the turn, when nothing of the agent lives. */
  async run(outcome: (turn: NativeTurn) => Promise<TurnResult>): Promise<TurnResult> {
    const place = await this.#prepared()
    this.#native = this.#request.start(this.#there(place))
    this.#begin(this.#native)
    let result: TurnResult
    try {
      result = await outcome(this.#native)
    } catch (error) {
      if (place) await this.#failed(error as { result?: TurnResult })
      throw error
    }
    return place ? this.#succeeded(result, place) : result
  }

  /** Makes the checkout; `null` for a folder that is in no repository. */
  async #prepared(): Promise<Place | null> {
    try {
      const place = JSON.parse(await settle<string>(this.#checkout.prepare(), callSite())) as Place | null
      const setup = this.#worktree?.setup
      if (place && setup && !this.#stopped.signal.aborted) await this.#setUp(setup, place)
      if (this.#stopped.signal.aborted) throw this.#request.aborted()
      return place
    } catch (error) {
      await this.#leave(this.#worktree?.keep === 'always')
      this.#begin(undefined)
      throw error
    }
  }

  async #setUp(setup: readonly string[], place: Place): Promise<void> {
    try {
      await this.#runThere(setup, place, true)
    } catch (error) {
      if (this.#stopped.signal.aborted) return
      const message = `the setup of the checkout failed: ${(error as Error).message}`
      throw new SheepdogError('WORKTREE_FAILED', message, { step: 'setup' }, error)
    }
  }

  #runThere(command: readonly string[], place: Place, reject = false): Promise<RunResult> {
    const { options } = this.#request
    const { inheritEnv, killGraceMs, containment, timeoutMs, toolIdleTimeoutMs = 900_000 } = options
    const { cwd, env, sandbox } = this.#there(place)
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
      signal: this.#stopped.signal,
      reject,
    })
  }

  /** The options that are others in the checkout. Variables that point git at another repository are not inherited. */
  #there(place: Place | null): Pick<HarnessOptions, 'cwd' | 'env' | 'sandbox'> {
    const { cwd, env, sandbox } = this.#request.options
    if (!place || !this.#worktree) return { cwd, env, sandbox }
    const unset = Object.fromEntries(place.removed.map((name) => [name, undefined]))
    return { cwd: place.cwd, env: { ...unset, ...env }, sandbox: widened(sandbox, place) }
  }

  async #succeeded(result: TurnResult, place: Place): Promise<TurnResult> {
    try {
      const { changes, warnings } = await this.#read()
      if (this.#request.judge) await this.#request.judge((command) => this.#runThere(command, place))
      const kept = await this.#leave(this.#worktree?.keep === 'always')
      return { ...result, warnings: [...result.warnings, ...warnings], changes: new Changes(changes, kept) }
    } catch (error) {
      // The checkout holds the only copy of what the agent did.
      await this.#leave(true)
      ;(error as { result?: TurnResult }).result = result
      throw error
    }
  }

  async #failed(error: { result?: TurnResult }): Promise<void> {
    const keeps = this.#worktree?.keep
    try {
      const { changes, warnings } = await this.#read()
      const kept = await this.#leave(keeps === 'always' || keeps === 'failure')
      const told = new Changes(changes, kept)
      if (!error.result) return await told.discard()
      error.result.changes = told
      error.result.warnings = [...error.result.warnings, ...warnings]
    } catch (unread) {
      await this.#leave(true)
      if (error.result) error.result.warnings = [...error.result.warnings, (unread as Error).message]
    }
  }

  async #read(): Promise<{ changes: ConstructorParameters<typeof Changes>[0]; warnings: string[] }> {
    return JSON.parse(await settle<string>(this.#checkout.changes(), callSite()))
  }

  async #leave(keeps: boolean): Promise<string | undefined> {
    const kept = await settle<string>(this.#checkout.leave(keeps), callSite())
    return (JSON.parse(kept) as string | null) ?? undefined
  }
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
