// Agents for tests: what an agent does is a script, and no CLI and no network is needed.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AgentProgram } from './harness/agent_program'
import type { AgentErrorKind } from './harness/result'
import { toJson } from './json'
import { check, type Checks } from './option'

/** Reaction of a scripted agent to one prompt. */
export interface ScriptedStep {
  /**
   * Text that the prompt contains, or an expression that it matches.
   *
   * @default any prompt
   */
  on?: string | RegExp
  /** Time without any output before the rest of the step, in milliseconds. */
  stallMs?: number
  /**
   * Tool call. A tool that the caller gave to `open()` is called indeed; any other one is only told. With
   * `ask` the agent asks for permission first. Default of `ask`: true for a tool of the caller, else false.
   */
  tool?: {
    name: string
    kind?: 'read' | 'edit' | 'delete' | 'move' | 'search' | 'execute' | 'think' | 'fetch' | 'other'
    input?: Record<string, unknown>
    output?: string
    isError?: boolean
    ask?: boolean
  }
  /** Question to the user (`onElicitation` of a session): a message, and the JSON Schema of the input. */
  ask?: { message: string; schema?: object }
  /** Text of the answer. */
  say?: string
  /** Answer as JSON, in place of `say`. */
  structured?: unknown
  /** The turn fails because of a usage limit that ends in this time. */
  limit?: { resetsInMs: number }
  /** The turn fails for this reason. Agents of the Agent Client Protocol do not tell `max_turns`. */
  fail?: Exclude<AgentErrorKind, 'max_turns'>
  /**
   * Tokens of the turn.
   *
   * @default 10 of the input and 5 of the output
   */
  usage?: { inputTokens?: number; outputTokens?: number; cachedInputTokens?: number }
}

/** A prompt that a scripted agent got. */
export interface ScriptedPrompt {
  /** Text of the prompt. */
  prompt: string
  /** Session in which it came. */
  sessionId: string
  /** Index of the step that was played; -1 when no step was left for it. */
  step: number
  /** Answers to its questions: "allow" or "reject" for a permission, else the answer to `ask`. */
  answers: unknown[]
}

/** Messages by which the kind of a failure is known. */
const failures: Record<NonNullable<ScriptedStep['fail']>, string> = {
  auth: '401 Unauthorized: invalid API key',
  rate_limit: '429 Too Many Requests: rate limit reached',
  quota: 'You exceeded your current quota, please check your plan and billing details',
  overloaded: '529 overloaded',
  context_length: 'the prompt is too long: maximum context length exceeded',
  invalid_request: '400 Bad Request: invalid request',
  network: 'connection reset by peer (ECONNRESET)',
  server: '500 Internal Server Error',
  permission: '403 Forbidden: permission denied',
  unknown: 'scriptedAgent: the turn failed',
}

const toolChecks = {
  name: check.name,
  kind: check.oneOf('read', 'edit', 'delete', 'move', 'search', 'execute', 'think', 'fetch', 'other'),
  input: check.record,
  output: check.string,
  isError: check.boolean,
  ask: check.boolean,
} satisfies Checks<NonNullable<ScriptedStep['tool']>>

const stepChecks = {
  on: check.expected(
    'a string or a regular expression',
    (value) => typeof value === 'string' || value instanceof RegExp,
  ),
  stallMs: check.duration,
  tool: check.fields(toolChecks, 'name'),
  ask: check.fields({ message: check.string, schema: check.object }, 'message'),
  say: check.string,
  structured: () => {},
  limit: check.fields({ resetsInMs: check.duration }, 'resetsInMs'),
  fail: check.oneOf(...Object.keys(failures)),
  usage: check.fields({
    inputTokens: check.amount,
    outputTokens: check.amount,
    cachedInputTokens: check.amount,
  }),
} satisfies Checks<ScriptedStep>

/** An agent that does what its script says; a provider for `Harness`, `Fleet` and `doctor`. */
export interface ScriptedAgent extends AgentProgram {
  /** The prompts that the agent got so far, in all its sessions. */
  prompts(): ScriptedPrompt[]
}

/**
 * Makes an agent for tests. Each prompt plays the first step that fits it and was not played yet, in any
 * session and in any process of the agent. A failure with no step behind it lasts: the next attempt fails in
 * the same way. Any other prompt without a step fails with AGENT_FAILED. The script and its log are in a temporary folder that is removed when this process exits.
 *
 * @throws INVALID_OPTION for a wrong step.
 *
 * @example
 * const agent = scriptedAgent([{ on: 'tests', say: 'Two tests fail.' }, { fail: 'auth' }])
 * const { text } = await new Harness({ provider: agent }).run('Which tests fail?')
 */
export function scriptedAgent(steps: readonly ScriptedStep[]): ScriptedAgent {
  check.listOf(check.fields(stepChecks))('steps', steps)
  const folder = mkdtempSync(join(tmpdir(), 'sheepdog-scripted-'))
  removeAtExit(folder)
  writeFileSync(join(folder, 'script.json'), toJson('steps', steps.map(crossing)))
  const agent: AgentProgram = {
    name: 'scripted',
    command: process.execPath,
    args: [join(__dirname, 'testing', 'scripted_program.js'), folder],
    state: [folder],
    modes: { plan: 'plan', edit: 'edit', ask: 'ask', auto: 'auto' },
    reportsUsage: true,
  }
  // Not enumerable, so that a provider's options are only those that it knows.
  return Object.defineProperty(agent, 'prompts', { value: () => promptsOf(folder) }) as ScriptedAgent
}

const folders = new Set<string>()

/** One listener for all, because Node warns of more than ten. */
function removeAtExit(folder: string): void {
  if (folders.size === 0)
    process.once('exit', () => {
      for (const one of folders) rmSync(one, { recursive: true, force: true })
    })
  folders.add(folder)
}

/** A step as the program reads it. */
function crossing({ on, fail, limit, ...rest }: ScriptedStep): object {
  const seconds = (limit?.resetsInMs ?? 0) / 1000
  const error = limit
    ? `Rate limit reached for this model. Please try again in ${seconds}s.`
    : fail && failures[fail]
  return {
    ...rest,
    error,
    on: on instanceof RegExp ? { source: on.source, flags: on.flags.replace(/[gy]/g, '') } : on,
  }
}

function promptsOf(folder: string): ScriptedPrompt[] {
  const prompts: ScriptedPrompt[] = []
  let log = ''
  try {
    log = readFileSync(join(folder, 'log.jsonl'), 'utf8')
  } catch {
    return prompts
  }
  for (const line of log.split('\n').filter(Boolean)) {
    const { prompt, answers, sessionId, step } = JSON.parse(line)
    if (prompt !== undefined) prompts.push({ prompt, sessionId, step, answers: [] })
    else if (answers) prompts.at(-1)?.answers.push(...answers)
  }
  return prompts
}
