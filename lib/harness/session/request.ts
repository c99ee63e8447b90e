// Options of a session and of its prompts: types and their checks.
import { toJson } from '../../json'
import { toJsonSchema, toolProblem, type Tool } from '../../tool/definition'
import { native } from '../../native'
import { invalidOption } from '../../error'
import type { McpServer } from '../mcp_server'
import type { HarnessOptions, TurnOptions } from '../request'
import { agentChecks, harnessChecks, retryChecks, schemaText } from '../request'
import { check, checkOptions, optionsOf, show, type Check, type Checks } from '../../option'
import { ofOtherAgents } from '../foreign_option'
import type { ElicitationAnswer, ElicitationRequest } from './elicitation'
import type { Answer, PermissionRequest, Policy, ToolKind } from './permission'

/** Options of a turn that hold for a whole session as well. */
export type SessionWideOption =
  | 'cwd'
  | 'env'
  | 'inheritEnv'
  | 'containment'
  | 'killGraceMs'
  | 'redact'
  | 'record'
  | 'maxRecordBytes'
  | 'name'
  | 'signal'
  | 'model'
  | 'startTimeoutMs'
  | 'idleTimeoutMs'
  | 'toolIdleTimeoutMs'
  | 'timeoutMs'
  | 'sandbox'
  | 'maxTokens'
  | 'maxCostUsd'
  | 'prices'
  | 'budget'

/** Options of a session. The options of the harness are the defaults. */
export interface OpenOptions extends Pick<
  TurnOptions,
  SessionWideOption | 'systemPrompt' | 'resume' | 'changes' | 'worktree'
> {
  /**
   * Level of what the agent may do without asking. `"plan"`: read. `"edit"`: also write below `cwd` and
   * run the commands in `allow`. `"ask"`: everything that `policy` does not decide goes to
   * `onPermission`. `"auto"`: everything. The level is a mode of the agent itself.
   *
   * @default "ask" where `policy` or `onPermission` is given, else "edit"
   * @throws INVALID_OPTION when the agent cannot enforce the level.
   */
  permission?: 'plan' | 'edit' | 'auto' | 'ask'
  /**
   * Commands that the agent may run without asking, as globs.
   *
   * @default []
   */
  allow?: readonly string[]
  /**
   * Rules that decide on tool calls before `onPermission` is asked.
   *
   * @default no rules
   */
  policy?: Policy
  /**
   * Decides on the tool calls that `policy` leaves open. An error in this function refuses the call. An
   * answer that is none, such as `true`, also rejects the turn with INVALID_OPTION.
   * `context.signal` is aborted when no answer is needed any more.
   *
   * @default every such call is refused
   */
  onPermission?(request: PermissionRequest, context: { signal: AbortSignal }): Answer | Promise<Answer>
  /**
   * Gives the input that the agent asks of the user: a form, or a page to visit. An error in this function
   * cancels the request; an answer that is none also rejects the turn with INVALID_OPTION. `context.signal` is aborted when no answer is needed any more.
   *
   * @default the agent is told that nobody can be asked
   */
  onElicitation?(
    request: ElicitationRequest,
    context: { signal: AbortSignal },
  ): ElicitationAnswer | Promise<ElicitationAnswer>
  /**
   * How long `onPermission` and `onElicitation` may take, in milliseconds. After that the tool call is
   * refused, and the input is cancelled.
   *
   * @default 300_000 (5 minutes)
   */
  permissionTimeoutMs?: number
  /**
   * Tools that run in this process, made by `defineTool`. An error in a tool is reported to the agent.
   *
   * @default []
   */
  // oxlint-disable-next-line typescript/no-explicit-any -- a list of tools with arguments of many types
  tools?: readonly Tool<any>[]
  /**
   * MCP servers whose tools the agent may use.
   *
   * @default []
   */
  mcpServers?: readonly McpServer[]
  /**
   * A turn with background work is over when nothing has run in the background for this long, in
   * milliseconds. In protocol 1 every turn is over after a silence of 50 ms, or of this time if it is shorter; without
   * background work, 500 ms after the agent's answer at the latest.
   *
   * @default 500
   */
  settleMs?: number
  /**
   * Behaviour when a usage limit stops a prompt. Other failures are not repeated in a session: send the
   * prompt again.
   */
  retry?: Pick<NonNullable<TurnOptions['retry']>, 'waitForResetMs'>
  /**
   * Program that speaks the Agent Client Protocol; an array adds leading arguments.
   *
   * @default the agent's program on PATH, or in `node_modules/.bin` of `cwd` and the folders above it
   */
  binary?: HarnessOptions['binary']
}

/** Options of a prompt. The clocks of the session are the defaults. */
export interface PromptOptions extends Pick<
  TurnOptions,
  'schema' | 'timeoutMs' | 'idleTimeoutMs' | 'toolIdleTimeoutMs' | 'signal'
> {
  /**
   * Behaviour when the agent has ended its turn while work of it still runs in the background.
   * `"wait"`: wait for that work. `"leave"`: resolve at once; `warnings` name the work, which goes on.
   *
   * @default "wait"
   */
  background?: 'wait' | 'leave'
}

const kinds: ToolKind[] = [
  'read',
  'edit',
  'delete',
  'move',
  'search',
  'execute',
  'think',
  'fetch',
  'switch_mode',
  'other',
]

const ruleChecks = { kind: check.oneOf(...kinds), name: check.name, command: check.name, path: check.name }

const rules = check.listOf((at, rule) => {
  check.fields(ruleChecks)(at, rule)
  if (Object.values(rule as object).every((field) => field === undefined))
    throw invalidOption(at, 'is empty: a rule needs kind, name, command or path')
})

/** @internal The checks of a session's options. */
export const openChecks = optionsOf('harness.open()', {
  ...agentChecks,
  permission: check.oneOf('plan', 'edit', 'auto', 'ask'),
  policy: check.fields({ allow: rules, deny: rules }),
  onPermission: check.function,
  onElicitation: check.function,
  permissionTimeoutMs: check.timeout,
  tools(path: string, value: unknown) {
    const names = new Set<string>()
    const one: Check = (at, tool) => {
      const { name, handler, parameters } = (tool ?? {}) as Partial<Tool>
      check.name(`${at}.name`, name)
      check.function(`${at}.handler`, handler)
      const unfit = toolProblem({ name, parameters })
      if (unfit) throw invalidOption(`${at}.${unfit[0]}`, `tool ${show(name)}: ${unfit[1]}`)
      if (parameters !== undefined) {
        const text = toJson(`${at}.parameters`, toJsonSchema(parameters) ?? null)
        const problem = native.schemaProblem(text)
        if (problem) throw invalidOption(`${at}.parameters`, problem.replace(/^schema: /, ''))
      }
      if (names.has(name!)) throw invalidOption(`${at}.name`, `${show(name)} is given twice`)
      names.add(name!)
    }
    check.listOf(one)(path, value)
  },
  settleMs: check.duration,
  retry: check.fields({ waitForResetMs: retryChecks.waitForResetMs }),
  binary: harnessChecks.binary,
} satisfies Checks<OpenOptions>)

const { idleTimeoutMs, toolIdleTimeoutMs, timeoutMs, signal } = agentChecks

const promptChecks = optionsOf('session.prompt()', {
  idleTimeoutMs,
  toolIdleTimeoutMs,
  timeoutMs,
  signal,
  schema(path: string, value: unknown) {
    check.object(path, value)
    schemaText(value as object)
  },
  background: check.oneOf('wait', 'leave'),
} satisfies Checks<PromptOptions>)

export function checkOpenOptions(options: unknown): void {
  checkOptions(options, openChecks, '', ofOtherAgents)
}

export function checkPromptOptions(options: unknown): void {
  checkOptions(options, promptChecks, '', ofOtherAgents)
}
