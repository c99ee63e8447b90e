// Options of a turn: types and their checks. What a value means, and its default, is the core's business.
import { toJson } from '../json'
import type { AgentSpec, ProviderName, TurnSpec } from '../../native/native'
import { invalidOption, toError } from '../error'
import { native } from '../native'
import { check, checkOptions, optionsOf, show, snapshot, type Checks, type Crossing } from '../option'
import { checkNoCheckout, checkWorktree, type WorktreeOptions } from './checkout'
import { ofATurn } from './foreign_option'
import { inheritance } from '../process/environment'
import { environmentChanges, folderPath, processOptionChecks, type RunOptions } from '../process/request'
import { agentSandbox, checkAgentSandbox, type SandboxOptions } from '../sandbox'
import { checkServers, serverSpecs, type McpServer } from './mcp_server'
import { isSchemaLike, schemaOf } from '../schema'
import { checkProvider, providerSpec, type AgentProgram } from './agent_program'
import { budgetChecks, checkBudget, type Budget, type Prices } from './budget'
import { ConcurrencyLimit } from '../limit'

export type { ProviderName } from '../../native/native'

/**
 * Options of a turn: one prompt to an agent CLI.
 *
 * Every `*TimeoutMs` is in milliseconds. 0 and Infinity switch the clock off. With a negative
 * value the deadline is over: nothing is started, and the promise rejects with the clock's error.
 */
export interface TurnOptions extends Pick<
  RunOptions,
  'cwd' | 'env' | 'inheritEnv' | 'killGraceMs' | 'containment' | 'maxRecordBytes' | 'signal'
> {
  /**
   * Keep a record of the turn in a new folder below this one: prompt, events, the output of each
   * attempt, and the verdict. See docs/record.md.
   *
   * @default no record
   * @throws INVALID_OPTION when the folder cannot be written.
   */
  record?: string
  /**
   * Name of the turn in `sheepdog ps` and in its record.
   *
   * @default the head of the prompt
   */
  name?: string
  /**
   * Model to use, by the name that the CLI has for it.
   *
   * @default the CLI's own choice
   */
  model?: string
  /**
   * Instructions that are added to the CLI's own. gemini uses them instead of its own; opencode,
   * copilot and kimi cannot take them and add a warning.
   *
   * @default none
   */
  systemPrompt?: string
  /**
   * The only tools that the agent may use, by the names that the CLI has for them. A CLI that cannot be
   * limited (codex, gemini, opencode, kimi) adds a warning.
   *
   * @default all tools of the CLI
   */
  cliTools?: readonly string[]
  /**
   * Largest number of model answers in the turn. Only claude-code and qwen have such a limit; the
   * others add a warning.
   *
   * @default no limit
   * @throws AGENT_FAILED with `kind: "max_turns"` when the agent stops there.
   */
  maxTurns?: number
  /**
   * Level of what the agent may do without asking. `"plan"`: read. `"edit"`: also write in its working
   * directory and run the commands in `allow`. `"auto"`: everything. The CLI enforces the level by its
   * own means (docs/agents.md).
   *
   * @default "edit"
   * @throws INVALID_OPTION when the CLI cannot enforce the level.
   */
  permission?: 'plan' | 'edit' | 'auto'
  /**
   * Commands that the agent may run at level `"edit"`, as globs: `"npm test"`, `"git *"`. In a turn it needs
   * `sandbox`; a session needs none, because Sheepdog itself decides there.
   *
   * @default []
   * @throws INVALID_OPTION when the CLI cannot be limited to these commands.
   */
  allow?: readonly string[]
  /**
   * Limits on files and network for the CLI and everything that it starts, enforced by the kernel.
   * `"workspace"`: it may write only in its working directory, and at level `"plan"` not even there. An
   * object lists other folders instead. A temporary folder of the turn, and the folders where the CLI
   * keeps its state, are always writable.
   *
   * @default no sandbox
   * @throws SANDBOX_UNAVAILABLE when the kernel cannot enforce it; nothing is started.
   */
  sandbox?: 'workspace' | SandboxOptions
  /**
   * Largest number of input and output tokens over all attempts. The agent is ended when it uses more.
   *
   * @default no limit
   * @throws AGENT_BUDGET with the result so far; INVALID_OPTION for a CLI that reports no tokens.
   */
  maxTokens?: number
  /**
   * Largest cost over all attempts, in US dollars: computed from `prices`, or else as the CLI reports
   * it. The agent is ended when it costs more.
   *
   * @default no limit
   * @throws AGENT_BUDGET with the result so far; INVALID_OPTION without `prices` for a CLI that reports
   *   no cost.
   */
  maxCostUsd?: number
  /** Prices of the model's tokens, for `maxCostUsd` and `budget`. */
  prices?: Prices
  /**
   * A budget that this turn shares with others.
   *
   * @throws AGENT_BUDGET when it is used up.
   */
  budget?: Budget
  /**
   * Behaviour when the agent has ended its turn while work of it still runs in the background.
   * `"wait"`: wait for that work, within the clocks. `"leave"`: end the turn and the work; `warnings`
   * name the work.
   *
   * @default "wait"
   */
  background?: 'wait' | 'leave'
  /**
   * Whether `result.changes` says what was changed in the repository of `cwd` during the turn, by whomever. Outside of a
   * repository it is absent.
   *
   * @default false
   */
  changes?: boolean
  /**
   * Let the agent work in a checkout of its own, which begins with the files of `cwd` as they are. It borrows the objects of your
   * repository and shares nothing else with it. Your working tree changes only by `result.changes.apply()`.
   *
   * @default false
   * @throws INVALID_OPTION when `cwd` is in no git repository; WORKTREE_FAILED when git cannot make the checkout.
   */
  worktree?: boolean | WorktreeOptions
  /**
   * Schema that the answer must match: a JSON Schema, an object with `toJSONSchema()`, or a schema of a
   * library that can give its JSON Schema (zod, arktype, valibot). The answer is then in `structured`.
   * An answer that does not match is asked for once more.
   *
   * @throws AGENT_SCHEMA_MISMATCH with the `problems`.
   */
  schema?: object
  /**
   * Session id of an earlier turn, to continue its conversation. Use the same `cwd` as that turn.
   *
   * @default a new session
   * @throws AGENT_RESUME_FAILED when the CLI does not know the session.
   */
  resume?: string
  /**
   * Longest time until the first output of the CLI, in milliseconds.
   *
   * @default 60_000
   * @throws AGENT_IDLE
   */
  startTimeoutMs?: number
  /**
   * Longest silence while no tool runs, in milliseconds. If its processes are busy, the agent gets the
   * same time once more, with a warning.
   *
   * @default 300_000 (5 minutes)
   * @throws AGENT_IDLE
   */
  idleTimeoutMs?: number
  /**
   * Longest silence while a tool runs, in milliseconds.
   *
   * @default 900_000 (15 minutes)
   * @throws AGENT_IDLE
   */
  toolIdleTimeoutMs?: number
  /**
   * Longest time of one attempt, in milliseconds.
   *
   * @default 1_800_000 (30 minutes)
   * @throws AGENT_TIMED_OUT
   */
  timeoutMs?: number
  /**
   * Repetition of an attempt that failed for a passing reason: `rate_limit`, `overloaded`, `network` or
   * `server`.
   */
  retry?: {
    /**
     * Largest number of attempts, the first one included.
     *
     * @default 3
     */
    attempts?: number
    /**
     * Pause after the first failure, in milliseconds. It doubles with each failure, and half of it is
     * random. A longer pause that the service asks for is respected.
     *
     * @default 1000
     */
    baseDelayMs?: number
    /**
     * Longest pause between two attempts, in milliseconds.
     *
     * @default 30_000
     */
    maxDelayMs?: number
    /**
     * Whether to repeat a turn in which a tool has run. Such a turn may repeat what the tool did.
     *
     * @default false
     */
    afterTools?: boolean
    /**
     * Longest wait for the end of a usage limit, in milliseconds. A limit that ends within this time
     * (`error.resetAt`) is waited out, and the same session continues. The wait uses up no attempt.
     * Infinity waits for any limit.
     *
     * @default 0 (no wait)
     */
    waitForResetMs?: number
  }
  /**
   * Files with images that belong to the prompt: paths relative to `cwd`. gemini and kimi take no images in a
   * turn. claude-code and qwen take PNG, JPEG, GIF and WebP images of 20 MiB at most.
   *
   * @default []
   * @throws INVALID_OPTION when the CLI takes no images, or for a path without a file or image.
   */
  images?: readonly string[]
  /**
   * MCP servers whose tools the agent may use, beside those of its own configuration. claude-code, codex,
   * opencode, copilot and qwen take them in a turn. Names consist of letters, digits, "-" and "_".
   *
   * The agent starts the servers. `permission` does not limit what they do; a `sandbox` does.
   *
   * @default []
   * @throws INVALID_OPTION when the CLI takes no servers.
   */
  mcpServers?: readonly McpServer[]
  /**
   * Arguments that are passed to the CLI after those of this package and before the prompt. They may
   * raise the permission level.
   *
   * @default []
   */
  extraArgs?: readonly string[]
  /**
   * Secrets that are removed from events, results, errors and records.
   *
   * @default []
   */
  redact?: readonly string[]
}

/**
 * Options of a harness. The options of a turn are defaults here: `run` and `start` can override each of
 * them.
 */
export interface HarnessOptions extends TurnOptions {
  /** The agent to run: the name of a CLI, or any program that speaks the Agent Client Protocol. */
  provider: ProviderName | AgentProgram
  /**
   * Program to run instead of the provider's program on PATH; an array adds leading arguments.
   *
   * @default the provider's program on PATH
   * @throws AGENT_NOT_FOUND when it is not installed.
   */
  binary?: string | readonly string[]
  /**
   * Number of turns that this harness runs at once. Others wait, in the order of the calls. A slot is
   * free when the process tree of its turn is gone.
   *
   * @default 4
   */
  maxConcurrent?: number
  /**
   * A limit that this harness shares with others, in addition to `maxConcurrent`.
   *
   * @default no limit
   */
  limit?: ConcurrencyLimit
}

export const retryChecks = {
  attempts: check.count,
  baseDelayMs: check.duration,
  maxDelayMs: check.duration,
  afterTools: check.boolean,
  waitForResetMs(path: string, value: unknown) {
    if (value !== Infinity) check.duration(path, value)
  },
} satisfies Checks<TurnOptions['retry']>

const { cwd, inheritEnv, killGraceMs, containment, record, maxRecordBytes, name, signal } =
  processOptionChecks

/** @internal The checks of the options that turns and sessions share. */
export const agentChecks = {
  cwd,
  env(path: string, value: unknown) {
    processOptionChecks.env(path, value)
    environmentChanges(value as Record<string, string | undefined>)
  },
  inheritEnv,
  killGraceMs,
  containment,
  signal,
  model: check.name,
  systemPrompt: check.string,
  resume: check.name,
  redact: check.strings,
  allow: check.names,
  sandbox: checkAgentSandbox,
  startTimeoutMs: check.timeout,
  idleTimeoutMs: check.timeout,
  toolIdleTimeoutMs: check.timeout,
  timeoutMs: check.timeout,
  ...budgetChecks,
  budget: checkBudget,
  changes: check.boolean,
  worktree: checkWorktree,
  mcpServers: checkServers,
  record,
  maxRecordBytes,
  name,
} satisfies Partial<Checks<TurnOptions>>

/** Names of tools of a CLI. */
function checkNames(path: string, value: unknown): void {
  check.names(path, value)
  // The CLIs take the names as one list, and would read two names.
  const at = (value as string[]).findIndex((name) => name.includes(','))
  if (at >= 0) throw invalidOption(`${path}[${at}]`, 'expected one name, without a comma')
}

const turnChecks = optionsOf('harness.run()', {
  ...agentChecks,
  cliTools: checkNames,
  maxTurns: check.count,
  permission: check.oneOf('plan', 'edit', 'auto'),
  background: check.oneOf('wait', 'leave'),
  schema(path: string, value: unknown) {
    if (!isSchemaLike(value)) check.object(path, value)
    schemaText(value as object)
  },
  retry(path: string, value: unknown) {
    if (typeof value === 'number')
      throw invalidOption(path, `expected an object, got ${value}: use { attempts: ${value} }`)
    checkOptions(value, retryChecks, path)
  },
  images: check.names,
  extraArgs: check.strings,
} satisfies Checks<TurnOptions>)

/** @internal The checks of a harness's options. */
export const harnessChecks = {
  ...turnChecks,
  ...optionsOf('new Harness()', {
    provider: checkProvider,
    binary(path: string, value: unknown) {
      if (typeof value === 'string') return check.name(path, value)
      if (!Array.isArray(value))
        throw invalidOption(path, `expected a string or an array of strings, got ${show(value)}`)
      check.strings(path, value)
      if (!value[0])
        throw invalidOption(path, 'expected a program and its leading arguments, got an empty array')
    },
    maxConcurrent: check.count,
    limit(path: string, value: unknown) {
      const hint = typeof value === 'number' ? `: use \`maxConcurrent: ${value}\`` : ''
      if (!(value instanceof ConcurrencyLimit))
        throw invalidOption(path, `expected a ConcurrencyLimit, got ${show(value)}${hint}`)
    },
  }),
} satisfies Checks<HarnessOptions>

export function checkTurnOptions(options: unknown): void {
  checkOptions(options, turnChecks, '', ofATurn)
}

export function checkHarnessOptions(options: unknown): void {
  check.object('options', options)
  checkOptions(options, harnessChecks, '', ofATurn)
  if ((options as HarnessOptions).provider === undefined) {
    throw invalidOption('provider', `is missing; there are ${native.providerNames().join(', ')}`)
  }
  const problem = native.agentProblem(agentSpec(options as HarnessOptions))
  if (problem) throw toError(problem)
}

/** The harness's options are the turn's defaults; `undefined` counts as absent, env and retry go name by name. */
export function merge(defaults: HarnessOptions, options: TurnOptions = {}): HarnessOptions {
  const given = snapshot(options)
  const merged: HarnessOptions = { ...defaults, ...given }
  if (defaults.env && given.env) merged.env = { ...defaults.env, ...given.env }
  // The harness's `allow` is for "edit": a turn at another level does not get it.
  if (given.permission !== undefined && given.permission !== 'edit' && !given.allow) delete merged.allow
  if (defaults.retry && given.retry) merged.retry = { ...defaults.retry, ...given.retry }
  return merged
}

/** The JSON Schema as text; INVALID_OPTION for what is none. */
export function schemaText(schema: object): string {
  const text = toJson('schema', schemaOf(schema))
  const problem = native.schemaProblem(text)
  if (problem) throw invalidOption('schema', problem.replace(/^schema: /, ''))
  return text
}

/** Options that stay in JavaScript, or cross beside the others. */
type Beside = 'signal' | 'budget' | 'limit' | 'maxConcurrent'

type AgentOptions = Omit<
  Pick<HarnessOptions, (keyof AgentSpec & keyof HarnessOptions) | 'inheritEnv'>,
  'permission'
> &
  Pick<AgentSpec, 'permission'>

/** The options that turns and sessions share, as they cross to the core. */
export function agentSpec(options: AgentOptions): AgentSpec {
  const { provider, binary, cwd, env = {}, inheritEnv = true, sandbox, record, ...rest } = options
  rest satisfies Crossing<typeof rest, AgentSpec>
  const own = typeof provider === 'string' ? {} : provider.env
  return {
    ...rest,
    ...providerSpec(provider, binary),
    cwd: folderPath(cwd),
    env: environmentChanges({ ...own, ...env }),
    ...inheritance(inheritEnv),
    sandbox: agentSandbox(sandbox),
    record,
  }
}

/** The options of a turn, as they cross to the core. */
export function toSpec(
  prompt: string,
  options: Omit<HarnessOptions, Beside>,
  hasListener: boolean,
): TurnSpec {
  const { schema, mcpServers, inheritEnv: _, changes, worktree, ...rest } = options
  checkNoCheckout({ changes, worktree })
  rest satisfies Crossing<typeof rest, AgentSpec & TurnSpec>
  return {
    ...rest,
    agent: agentSpec(options),
    prompt,
    schema: schema && schemaText(schema),
    servers: mcpServers && serverSpecs(mcpServers),
    hasListener,
  }
}
