// What a turn is asked with: types and their checks. What a value means, and its default, is the core's business.
import type { AgentSpec, ProviderName, TurnSpec } from '../../native/native'
import { invalidOption } from '../error'
import { native } from '../native'
import { check, checkOptions, show, suggestion } from '../option'
import { absolute, inheritance, processOptionChecks, recordFolder, type RunOptions } from '../process'
import { agentSandbox, checkAgentSandbox, type SandboxOptions } from '../sandbox'
import { isSchemaLike, schemaOf } from '../schema'
import { budgetChecks, checkBudget, type Budget, type Prices } from './budget'
import type { ConcurrencyLimit } from '../limit'

export type { ProviderName } from '../../native/native'

/** How a turn is run. Every `*TimeoutMs` takes any number: 0 and Infinity mean off, less than 0 has passed: nothing is started. */
export interface TurnOptions extends Pick<
  RunOptions,
  'cwd' | 'env' | 'inheritEnv' | 'killGraceMs' | 'containment' | 'maxRecordBytes' | 'signal'
> {
  /** A folder: a new one in it keeps the turn: prompt, events, what every attempt printed, and the verdict (docs/record.md). */
  record?: string
  /** What people call it, in `sheepdog ps` and in its record; default: the head of the prompt. */
  name?: string
  model?: string
  /** Added to the CLI's own instructions (gemini: in place of them). */
  systemPrompt?: string
  /** Only these tools, by the names that the CLI gives them. */
  tools?: string[]
  maxTurns?: number
  maxBudgetUsd?: number
  /**
   * What it may do unasked. "plan": read. "edit" (default): also write in its working directory, and run the commands of `allow`.
   * "auto": everything. Held by the CLI's own means (docs/agents.md); a level that it can't hold is INVALID_OPTION.
   */
  permission?: 'plan' | 'edit' | 'auto'
  /** Commands that "edit" may run, as globs: "npm test", "git *". In a turn it needs `sandbox`. A CLI that can't be told so: INVALID_OPTION. */
  allow?: string[]
  /**
   * Held by the kernel for the CLI and all that it starts, or SANDBOX_UNAVAILABLE. "workspace": it writes in its working directory
   * alone (at "plan" not even there); or what is listed instead. A temporary folder of the run's own, and where the CLI keeps its
   * state, may always be written.
   */
  sandbox?: 'workspace' | SandboxOptions
  /** Input and output tokens, over all attempts. More: AGENT_BUDGET, with what there is of the result. */
  maxTokens?: number
  /** US dollars, over all attempts, by `prices`, else as the CLI says; INVALID_OPTION where there are neither. AGENT_BUDGET. */
  maxCostUsd?: number
  /** What the tokens of this model cost; for `maxCostUsd` and `budget`. */
  prices?: Prices
  /** Shared with other turns. */
  budget?: Budget
  /** What the agent left running behind its end of turn: "wait" (default) for it, within the clocks; "leave": `warnings` name it. */
  background?: 'wait' | 'leave'
  /** JSON Schema of the answer, an object with `toJSONSchema()`, or a library's schema that can say its JSON Schema. */
  schema?: object
  /** Session id of an earlier turn, in the same cwd. */
  resume?: string
  /** To the first byte; default 60 s. AGENT_IDLE. */
  startTimeoutMs?: number
  /** Silence while no tool is open; default 300 s. AGENT_IDLE. */
  idleTimeoutMs?: number
  /** Silence while a tool is open; default 900 s. AGENT_IDLE. */
  toolIdleTimeoutMs?: number
  /** A whole attempt; default 1800 s. AGENT_TIMED_OUT. */
  timeoutMs?: number
  /**
   * Default 3 attempts, 1 s, 30 s, false: a turn in which a tool ran is not repeated. `waitForResetMs` (default 0): a usage limit
   * that ends (`error.resetAt`) no later than so long from now is waited out, and the same session goes on; it counts as no attempt.
   */
  retry?: {
    attempts?: number
    baseDelayMs?: number
    maxDelayMs?: number
    afterTools?: boolean
    waitForResetMs?: number
  }
  /** Behind the harness's own arguments, before the prompt. */
  extraArgs?: string[]
  /** Secrets that appear nowhere: not in events, results or errors. */
  redact?: string[]
}

/** A harness; what is a turn's option here is the turns' default. */
export interface HarnessOptions extends TurnOptions {
  provider: ProviderName
  /** Program, or program and leading arguments. Default: the provider's program on PATH. */
  binary?: string | string[]
  /** Turns at once; default 4. A slot is free when the tree is gone. */
  maxConcurrent?: number
  /** A limit that is shared between harnesses. */
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
}

const { cwd, inheritEnv, killGraceMs, containment, record, maxRecordBytes, name, signal } =
  processOptionChecks

/** The checks of the options that turns and sessions share. */
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
  allow: check.strings,
  sandbox: checkAgentSandbox,
  startTimeoutMs: check.timeout,
  idleTimeoutMs: check.timeout,
  toolIdleTimeoutMs: check.timeout,
  timeoutMs: check.timeout,
}

const turnChecks = {
  ...agentChecks,
  tools: check.strings,
  maxTurns: check.count,
  maxBudgetUsd(path: string, value: unknown) {
    if (typeof value !== 'number' || !Number.isFinite(value) || value <= 0) {
      throw invalidOption(path, `expected a number of dollars > 0, got ${show(value)}`)
    }
  },
  permission: check.oneOf('plan', 'edit', 'auto'),
  ...budgetChecks,
  budget: checkBudget,
  background: check.oneOf('wait', 'leave'),
  schema(path: string, value: unknown) {
    if (!isSchemaLike(value)) check.object(path, value)
    schemaText(value as object)
  },
  retry: (path: string, value: unknown) => checkOptions(value, retryChecks, path),
  extraArgs: check.strings,
  record,
  maxRecordBytes,
  name,
}

const harnessChecks = {
  ...turnChecks,
  provider(path: string, value: unknown) {
    const names: string[] = native.providerNames()
    if (typeof value !== 'string')
      throw invalidOption(path, `expected the name of a provider, got ${show(value)}`)
    if (!names.includes(value)) {
      const others = `; there are ${names.join(', ')}`
      throw invalidOption(path, `no provider is named ${show(value)}${suggestion(value, names) || others}`)
    }
  },
  binary(path: string, value: unknown) {
    if (typeof value === 'string') return check.name(path, value)
    if (!Array.isArray(value))
      throw invalidOption(path, `expected a string or an array of strings, got ${show(value)}`)
    check.strings(path, value)
    if (!value[0]) throw invalidOption(path, 'expected a program and its leading arguments, got none')
  },
  maxConcurrent: check.count,
  limit: check.object,
}

export function checkTurnOptions(options: unknown): void {
  checkOptions(options, turnChecks)
}

export function checkHarnessOptions(options: unknown): void {
  check.object('options', options)
  checkOptions(options, harnessChecks)
  if ((options as HarnessOptions).provider === undefined) {
    throw invalidOption('provider', `is missing; there are ${native.providerNames().join(', ')}`)
  }
}

/** The harness's options are the turn's defaults; `undefined` counts as absent, env and retry go name by name. */
export function merge(defaults: HarnessOptions, options: TurnOptions = {}): HarnessOptions {
  const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined))
  const merged: HarnessOptions = { ...defaults, ...given }
  if (defaults.env && options.env) merged.env = { ...defaults.env, ...options.env }
  // What "edit" may run is no business of a turn at another level.
  if (given.permission !== undefined && given.permission !== 'edit' && !given.allow) delete merged.allow
  if (defaults.retry && options.retry) merged.retry = { ...defaults.retry, ...options.retry }
  return merged
}

/** The JSON Schema as text; INVALID_OPTION for what is none. */
export function schemaText(schema: object): string {
  let text: string | undefined
  try {
    text = JSON.stringify(schemaOf(schema))
  } catch (error) {
    if ((error as { code?: unknown }).code === 'INVALID_OPTION') throw error
    throw invalidOption(
      'schema',
      `can't be written as JSON: ${error instanceof Error ? error.message : String(error)}`,
    )
  }
  if (text === undefined) throw invalidOption('schema', "can't be written as JSON")
  const problem = native.schemaProblem(text)
  if (problem) throw invalidOption('schema', problem.replace(/^schema: /, ''))
  return text
}

export function environmentChanges(
  env: Record<string, string | undefined>,
): { name: string; value?: string }[] {
  return Object.entries(env).map(([name, value]) => {
    const path = `env[${JSON.stringify(name)}]`
    if (name === '' || /[=\0]/.test(name)) {
      throw invalidOption(path, 'a variable\'s name is not empty and has neither "=" nor NUL')
    }
    if (value !== undefined) check.string(path, value)
    return { name, value }
  })
}

type AgentOptions = Omit<
  Pick<HarnessOptions, (keyof AgentSpec & keyof HarnessOptions) | 'inheritEnv'>,
  'permission'
> &
  Pick<AgentSpec, 'permission'>

/** What turns and sessions share, as it crosses. */
export function agentSpec(options: AgentOptions): AgentSpec {
  const { binary, cwd, env = {}, inheritEnv = true, sandbox, record, ...rest } = options
  return {
    ...rest,
    binary: typeof binary === 'string' ? [binary] : binary,
    cwd: absolute(cwd),
    env: environmentChanges(env),
    ...inheritance(inheritEnv),
    sandbox: agentSandbox(sandbox),
    record: recordFolder(record),
  }
}

export function toSpec(prompt: string, options: HarnessOptions, hasListener: boolean): TurnSpec {
  const { schema, tools, maxTurns, maxBudgetUsd, allow, background, retry, extraArgs } = options
  return {
    agent: agentSpec(options),
    prompt,
    tools,
    maxTurns,
    maxBudgetUsd,
    allow,
    background,
    schema: schema && schemaText(schema),
    retry,
    extraArgs,
    hasListener,
  }
}
