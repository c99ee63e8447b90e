// What a session and its prompts are asked with: types and their checks.
import type { Tool } from '../../copilot/tool'
import { invalidOption } from '../../error'
import { budgetChecks, checkBudget } from '../budget'
import type { HarnessOptions, TurnOptions } from '../request'
import { agentChecks, retryChecks, schemaText } from '../request'
import { check, checkOptions, show } from '../../option'
import { processOptionChecks } from '../../process'
import type { Answer, PermissionRequest, Policy } from './permission'

/** A server of tools that the agent is given. */
export type McpServer =
  | { name: string; url: string; headers?: Record<string, string> }
  | { name: string; command: string; args?: string[]; env?: Record<string, string> }

/** How a session is opened; what a harness has is the default. */
export interface OpenOptions extends Pick<
  TurnOptions,
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
  | 'systemPrompt'
  | 'resume'
  | 'startTimeoutMs'
  | 'idleTimeoutMs'
  | 'toolIdleTimeoutMs'
  | 'timeoutMs'
  | 'sandbox'
  | 'maxTokens'
  | 'maxCostUsd'
  | 'prices'
  | 'budget'
> {
  /**
   * "plan": read; "edit": also write below `cwd`, and run the commands of `allow`; "auto": everything. "ask": what the policy
   * leaves open goes to `onPermission`; the default where one of the two is given, else "edit". The level is the agent's own
   * mode; one that it can't hold is INVALID_OPTION.
   */
  permission?: 'plan' | 'edit' | 'auto' | 'ask'
  /** Commands that may run unasked, as globs. */
  allow?: string[]
  policy?: Policy
  /** Answers what the policy leaves open; one that throws refuses the tool. The signal is aborted when no answer is needed any more. */
  onPermission?(request: PermissionRequest, context: { signal: AbortSignal }): Answer | Promise<Answer>
  /** For an answer; then the tool is refused. Default 300 s. */
  permissionTimeoutMs?: number
  /** Run in this process, by `defineTool`. */
  // oxlint-disable-next-line typescript/no-explicit-any -- a list of tools with arguments of many types
  tools?: Tool<any>[]
  mcpServers?: McpServer[]
  /** For how long nothing may go on behind a turn before it is over; default 500. */
  settleMs?: number
  /**
   * `waitForResetMs` (default 0): a prompt that meets a usage limit which ends (`error.resetAt`) no later than so long from now
   * waits for it and goes on. What else may pass by itself is not tried again: prompt anew.
   */
  retry?: Pick<NonNullable<TurnOptions['retry']>, 'waitForResetMs'>
  /** The program that speaks the protocol, with leading arguments. */
  binary?: HarnessOptions['binary']
}

/** How a prompt is run; the clocks' defaults are the session's. */
export interface PromptOptions extends Pick<
  TurnOptions,
  'schema' | 'timeoutMs' | 'idleTimeoutMs' | 'toolIdleTimeoutMs' | 'signal'
> {
  /** "wait" (default): until what the agent left behind its end of turn is done; "leave": it is named in `warnings`. */
  background?: 'wait' | 'leave'
}

function array(path: string, value: unknown): unknown[] {
  if (!Array.isArray(value)) throw invalidOption(path, `expected an array, got ${show(value)}`)
  return value
}

const ruleChecks = { kind: check.name, name: check.name, command: check.name, path: check.name }

function rules(path: string, value: unknown): void {
  array(path, value).forEach((rule, index) => {
    const at = `${path}[${index}]`
    check.object(at, rule)
    checkOptions(rule, ruleChecks, at)
    if (Object.values(rule as object).every((field) => field === undefined)) {
      throw invalidOption(at, 'names nothing: a rule says kind, name, command or path')
    }
  })
}

function pairs(path: string, value: unknown): void {
  check.record(path, value)
  for (const [name, text] of Object.entries(value as object)) check.string(`${path}.${name}`, text)
}

const serverChecks = {
  name: check.name,
  url: check.name,
  headers: pairs,
  command: check.name,
  args: check.strings,
  env: pairs,
}

const { record, maxRecordBytes, name } = processOptionChecks

const openChecks = {
  ...agentChecks,
  record,
  maxRecordBytes,
  name,
  ...budgetChecks,
  budget: checkBudget,
  permission: check.oneOf('plan', 'edit', 'auto', 'ask'),
  policy: (path: string, value: unknown) => checkOptions(value, { allow: rules, deny: rules }, path),
  onPermission: check.function,
  permissionTimeoutMs: check.timeout,
  tools(path: string, value: unknown) {
    const names = new Set<string>()
    array(path, value).forEach((tool, index) => {
      const { name, handler } = (tool ?? {}) as Partial<Tool>
      check.name(`${path}[${index}].name`, name)
      check.function(`${path}[${index}].handler`, handler)
      if (names.has(name!)) throw invalidOption(`${path}[${index}].name`, `${show(name)} is there twice`)
      names.add(name!)
    })
  },
  mcpServers(path: string, value: unknown) {
    array(path, value).forEach((server, index) => {
      const at = `${path}[${index}]`
      check.object(at, server)
      checkOptions(server, serverChecks, at)
      const { name, url, command } = server as { name?: string; url?: string; command?: string }
      if (name === undefined) throw invalidOption(`${at}.name`, 'is missing')
      if ((url === undefined) === (command === undefined)) {
        throw invalidOption(at, 'expected either url or command')
      }
    })
  },
  settleMs: check.duration,
  retry: (path: string, value: unknown) =>
    checkOptions(value, { waitForResetMs: retryChecks.waitForResetMs }, path),
  binary(path: string, value: unknown) {
    if (typeof value === 'string') return check.name(path, value)
    check.strings(path, value)
    if (!(value as string[])[0])
      throw invalidOption(path, 'expected a program and its leading arguments, got none')
  },
}

const { idleTimeoutMs, toolIdleTimeoutMs, timeoutMs, signal } = agentChecks

const promptChecks = {
  idleTimeoutMs,
  toolIdleTimeoutMs,
  timeoutMs,
  signal,
  schema(path: string, value: unknown) {
    check.object(path, value)
    schemaText(value as object)
  },
  background: check.oneOf('wait', 'leave'),
}

export function checkOpenOptions(options: unknown): void {
  checkOptions(options, openChecks)
}

export function checkPromptOptions(options: unknown): void {
  checkOptions(options, promptChecks)
}
