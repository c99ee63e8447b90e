// A race: one prompt, several agents, a checkout each, and a command that decides.
import { basename } from 'node:path'
import { onAbort } from '../abort'
import { callSite } from '../call-site'
import { invalidOption, settle, SheepdogError, withPath } from '../error'
import { Harness } from '../harness'
import { absolutePath, elapsedMs, onWaitedFor } from '../host'
import { native } from '../native'
import { check, checkOptions, givenOf, optionsOf, show, snapshot, type Checks } from '../option'
import { folderPath, processOptionChecks } from '../process/request'
import type { RunResult } from '../process/result'
import { checkCommand, type RunThere } from './checkout'
import type { Changes } from './changes'
import { inside } from './judged'
import { writeRace, type RecordedEntry } from './record_file'
import type { AgentName } from './agent_program'
import type { HarnessOptions } from './request'
import type { AgentUsage, TurnResult } from './result'

/** Options of a race. */
export interface RaceOptions {
  /**
   * A folder in a git repository, for all entries.
   *
   * @default that of each agent's harness
   */
  cwd?: string | URL
  /** The agents, each with options of its own. One that is listed twice tries twice. */
  agents: readonly (Harness | HarnessOptions)[]
  /**
   * Command that decides on an entry. It runs in the entry's checkout, under the entry's sandbox, when nothing of its agent lives any
   * more. Exit status 0 passes.
   *
   * @default none: a turn that succeeded passes
   */
  verify?: readonly [string, ...string[]]
  /**
   * `"first"`: the first entry that passes wins, and the others are killed. `"all"`: all run to their end; the first that passed wins.
   *
   * @default "first"
   */
  winner?: 'first' | 'all'
  /**
   * Number of entries that run at once.
   *
   * @default all
   */
  concurrency?: number
  /**
   * Longest time of the whole race, in milliseconds. Then the entries that still run are killed; 0 and Infinity switch it off.
   *
   * @default no limit: the clocks of each turn hold
   * @throws AGENT_ABORTED, as the `error` of these entries; the race itself resolves.
   */
  timeoutMs?: number
  /** Ends the race: every entry is killed, and its changes are discarded. */
  signal?: AbortSignal
  /**
   * Keep a record of each turn in a new folder below this one. The page of `sheepdog view` shows the entries side by side.
   *
   * @default that of each agent's harness
   */
  record?: string
  /** Called when an entry has ended and nothing of it lives any more. An error that it throws ends the race, which rejects with it. */
  onEntry?(entry: RaceEntry): void
}

/** How an agent did in a race. */
export interface RaceEntry {
  /** Name of the agent. */
  provider: AgentName
  /**
   * `"passed"`: its turn succeeded, and `verify` did. `"failed-verify"`: `verify` failed. `"failed"`: its turn failed. `"aborted"`: another
   * one won, or time was up.
   */
  state: 'passed' | 'failed-verify' | 'failed' | 'aborted'
  /** Result of the turn; of a failed turn, what was there before the failure. */
  result?: TurnResult
  /** The error of the turn, or the reason why `verify` could not run. */
  error?: SheepdogError
  /** Result of `verify`. */
  verify?: RunResult
  /** The agent's changes. The changes of an aborted entry are discarded. */
  changes?: Changes
  /** Tokens and cost of the turn. */
  usage?: AgentUsage
  /** Milliseconds from the start of the entry to its end, `verify` included. */
  durationMs: number
}

/** Result of a race. */
export interface Race {
  /** The entry that won; absent when none passed. */
  winner?: RaceEntry
  /** All entries, in the order of `agents`. */
  entries: RaceEntry[]
}

const { cwd, record: recordCheck, signal } = processOptionChecks

const raceChecks = optionsOf('race()', {
  cwd,
  agents(path: string, value: unknown) {
    check.listOf(checkAgent)(path, value)
    if ((value as unknown[]).length === 0) throw invalidOption(path, 'expected at least one agent')
  },
  verify: checkCommand,
  winner: check.oneOf('first', 'all'),
  concurrency: check.count,
  timeoutMs: check.timeout,
  signal,
  record: recordCheck,
  onEntry: check.function,
} satisfies Checks<RaceOptions>)

/**
 * Gives one prompt to several agents, each in a checkout of its own, and lets a command decide. Resolves when nothing of any entry
 * lives any more. Your working tree stays as it is until `winner.changes.apply()`.
 *
 * @throws INVALID_OPTION where there is no git repository, and for a wrong option; WORKTREE_FAILED where its files cannot be read;
 *   nothing was started. AGENT_ABORTED when the signal was aborted.
 *
 * @example
 * const { winner } = await race('Fix the failing test.', {
 *   agents: [{ provider: 'codex' }, { provider: 'claude-code' }],
 *   verify: ['npm', 'test'],
 * })
 * await winner?.changes?.apply()
 */
export async function race(prompt: string, options: RaceOptions): Promise<Race> {
  check.string('prompt', prompt)
  check.object('options', options)
  checkOptions(options, raceChecks)
  if (options.agents === undefined) throw invalidOption('agents', 'is missing: expected an array of agents')
  options = snapshot(options)
  const harnesses = options.agents.map(toHarness)
  const over = () => new SheepdogError('AGENT_ABORTED', 'the race was aborted', {}, options.signal?.reason)
  if (options.signal?.aborted) throw over()
  const folders = harnesses.map((harness) => folderOf(options.cwd ?? inside.options(harness).cwd))
  const bases = new Map<string, string>()
  for (const folder of new Set(folders))
    bases.set(folder, await settle<string>(native.takeBase(folder), callSite()))
  if (options.signal?.aborted) throw over()
  const places = folders.map((cwd) => ({ cwd, base: bases.get(cwd)! }))
  const entries = harnesses.map((harness, index) => new Entry(harness, prompt, places[index]!, options))
  const { winner, thrown } = await runAll(entries, options)
  await record(entries, winner)
  const isAborted = options.signal?.aborted && !winner
  if (isAborted || thrown) await Promise.all(entries.map((entry) => entry.discard()))
  await Promise.all(entries.map((entry) => entry.release()))
  if (thrown) throw thrown.error
  if (isAborted) throw over()
  return { winner: winner?.facts, entries: entries.map(({ facts }) => facts) }
}

function checkAgent(path: string, agent: unknown): void {
  if (typeof agent !== 'object' || agent === null)
    throw invalidOption(path, `expected a Harness or its options, got ${show(agent)}`)
}

function toHarness(agent: Harness | HarnessOptions, index: number): Harness {
  return agent instanceof Harness ? agent : withPath(`agents[${index}]`, () => new Harness(agent))
}

function folderOf(cwd: string | URL | undefined): string {
  return absolutePath(folderPath(cwd) ?? '.')
}

/** How all entries ended: the first that passed, and an error of the caller's own function. */
interface Outcome {
  winner?: Entry
  thrown?: { error: unknown }
}

/** Runs the entries, so many at once. */
async function runAll(entries: Entry[], options: RaceOptions): Promise<Outcome> {
  const { winner: rule = 'first', concurrency = entries.length, timeoutMs = 0, signal } = options
  const outcome: Outcome = {}
  const stop = () => entries.forEach((entry) => entry.stop())
  const onPass = (entry: Entry) => {
    const winner = (outcome.winner ??= entry)
    if (rule === 'first') entries.forEach((other) => other !== winner && other.stop())
  }
  const tell = ({ facts }: Entry) => {
    try {
      options.onEntry?.(facts)
    } catch (error) {
      outcome.thrown ??= { error }
      stop()
    }
  }
  const stopWaiting = timeoutMs > 0 ? onWaitedFor(timeoutMs, stop) : undefined
  if (timeoutMs < 0) stop()
  const letGo = onAbort(signal, stop)
  const waiting = [...entries]
  const work = async () => {
    for (let entry = waiting.shift(); entry; entry = waiting.shift()) {
      await entry.run(onPass)
      tell(entry)
    }
  }
  try {
    await Promise.all(Array.from({ length: Math.min(concurrency, entries.length) }, work))
  } finally {
    stopWaiting?.()
    letGo()
  }
  return outcome
}

/** Writes the whole race into the record of each of its turns. */
async function record(entries: Entry[], winner: Entry | undefined): Promise<void> {
  const race = { entries: entries.map((entry) => entry.recorded(entry === winner)) }
  const write = async ({ facts: { result } }: Entry) => {
    if (!result?.record) return
    await writeRace(result.record.folder, race).catch((error: Error) => {
      result.warnings = [...result.warnings, `the race is not on record: ${error.message}`]
    })
  }
  await Promise.all(entries.map(write))
}

/** The reason for an entry's state, in a line. */
function reasonOf({ error, verify, state }: RaceEntry): string | null {
  if (error) return `${error.code}: ${error.message}`
  if (state !== 'failed-verify' || !verify) return null
  return `verify ended with ${verify.signal ?? `exit status ${verify.exitCode}`}`
}

class Entry {
  readonly facts: RaceEntry
  readonly #harness: Harness
  readonly #prompt: string
  /** All entries of a folder begin with the same commit, whatever happens there meanwhile. */
  readonly #place: { cwd: string; base: string }
  readonly #options: RaceOptions
  readonly #stopped = new AbortController()
  #release: (() => Promise<unknown>) | undefined

  constructor(harness: Harness, prompt: string, place: { cwd: string; base: string }, options: RaceOptions) {
    this.#harness = harness
    this.#prompt = prompt
    this.#place = place
    this.#options = options
    this.facts = { provider: harness.provider, state: 'aborted', durationMs: 0 }
  }

  stop(): void {
    this.#stopped.abort()
  }

  /** Its changes are the caller's from now on. */
  async release(): Promise<void> {
    await this.#release?.()
  }

  /** Never rejects. */
  async run(onPass: (entry: Entry) => void): Promise<void> {
    if (this.#stopped.signal.aborted) return
    const startedMs = elapsedMs()
    const own = inside.options(this.#harness)
    const letGo = onAbort(own.signal, () => this.stop())
    const { record = own.record } = this.#options
    const options = {
      cwd: this.#place.cwd,
      worktree: { base: this.#place.base, ...(typeof own.worktree === 'object' && givenOf(own.worktree)) },
      signal: this.#stopped.signal,
      record,
    }
    const { facts } = this
    try {
      const judge = {
        judge: (runThere: RunThere) => this.#judge(runThere, onPass),
        hold: (release: () => Promise<unknown>) => (this.#release = release),
      }
      facts.result = await inside.start(this.#harness, this.#prompt, options, judge).result
    } catch (error) {
      facts.error = error as SheepdogError
      facts.result = (error as { result?: TurnResult }).result
      facts.state = this.#stopped.signal.aborted ? 'aborted' : 'failed'
    }
    letGo()
    facts.changes = facts.result?.changes
    facts.usage = facts.result?.usage
    if (facts.state === 'aborted') await this.discard()
    facts.durationMs = elapsedMs() - startedMs
  }

  async #judge(runThere: RunThere, onPass: (entry: Entry) => void): Promise<void> {
    const { facts } = this
    const { verify } = this.#options
    try {
      if (this.#stopped.signal.aborted) return
      if (verify) facts.verify = await runThere(verify, this.#stopped.signal)
      facts.state = !facts.verify || facts.verify.ok ? 'passed' : 'failed-verify'
    } catch (error) {
      facts.error = error as SheepdogError
      facts.state = this.#stopped.signal.aborted ? 'aborted' : 'failed-verify'
    }
    if (facts.state === 'passed') onPass(this)
  }

  recorded(hasWon: boolean): RecordedEntry {
    const { provider, state, result, usage, changes, durationMs } = this.facts
    return {
      run: result?.record ? basename(result.record.folder) : null,
      provider,
      state: hasWon ? 'won' : state,
      reason: reasonOf(this.facts),
      tokens: usage ? usage.inputTokens + usage.outputTokens : null,
      costUsd: usage?.costUsd ?? null,
      durationMs,
      files: changes?.files.length ?? null,
    }
  }

  /** Nothing of it is left but its facts. */
  async discard(): Promise<void> {
    const { changes } = this.facts
    delete this.facts.changes
    if (this.facts.result) delete this.facts.result.changes
    // The ref stays where git cannot remove it, and names what is in it.
    await changes?.discard().catch(() => {})
  }
}
